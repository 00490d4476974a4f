"""Sentences per second and parameters of models whose vocabularies differ, as ratios to the first one named.

    python benchmarks/decoding_speed.py NAME=MODEL NAME=MODEL --sources FILE --references FILE --languages en-fr

MODEL is a directory, such as a finetuned model of the store; a system's evaluation next to it has sources.txt and
references.txt. Models take turns in every round, so read the ratios. They decode in two ways: until they end of
themselves, as a user waits for it; and for exactly as many tokens as the references have, which is what the vocabulary
brings by itself: a model with little training repeats itself, and one such output holds up its batch.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from rich.table import Table
from torch import Tensor

from subgraft.base.terminal import Terminal
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.translate import BeamCache, Translator
from subgraft.pipeline.compute.outputs import measure_length, translator

BATCH = 32


class AsLongAsReferences(Translator):
    """Decodes each batch for as many tokens as its longest reference has, whatever the model would end with."""

    wanted: Mapping[str, int]

    @torch.inference_mode()
    def _generate(self, sequences: Sequence[list[int]], texts: Sequence[str]) -> Tensor:
        input_ids, attention_mask = self._padded(sequences, self._source.special["pad"])
        length = 1 + max(self.wanted[text] for text in texts)  # with the decoder's start
        generated: Tensor = self._model.generate(  # type: ignore[operator]
            input_ids=input_ids,
            attention_mask=attention_mask,
            **self._search,
            decoder_start_token_id=self._sequence_format.start,
            forced_bos_token_id=None,
            forced_eos_token_id=None,
            min_length=length,
            max_length=length,
            past_key_values=BeamCache(),
        )
        return generated[:, 1:]


def main() -> None:
    args = _arguments()
    torch.set_num_threads(args.threads)
    sources, references = (_lines(path)[: args.sentences] for path in (args.sources, args.references))
    languages = Languages(**dict(zip(("source", "target"), args.languages.split("-"), strict=True)))
    bundles = {name: Bundle.load(directory) for name, _, directory in (each.partition("=") for each in args.models)}
    settings = MeasurementSettings(beam=args.beam, max_length_ratio=args.max_length_ratio)
    own = {name: translator(bundle, languages, settings) for name, bundle in bundles.items()}
    forced = {name: _forced(bundle, languages, settings, sources, references) for name, bundle in bundles.items()}
    speeds = [_in_turn(ways, sources, args.rounds) for ways in (own, forced)]
    table = Table("model", "parameters", "tokens/sentence", "sent./s as it ends", "sent./s at reference length")
    first = next(iter(bundles))
    sizes = {name: bundle.model.num_parameters() for name, bundle in bundles.items()}
    lengths = {name: measure_length(bundle, references)["tokens_per_sentence"] for name, bundle in bundles.items()}
    for name in bundles:
        cells = [f"{sizes[name] / 1e6:.2f} M ×{sizes[name] / sizes[first]:.2f}"]
        cells += [f"{lengths[name]:.1f} ×{lengths[name] / lengths[first]:.2f}"]
        cells += [_ratio(rates[name], rates[first]) for rates in speeds]
        table.add_row(name, *cells)
    Terminal().print(table, f"{len(sources)} sentences, beam {args.beam}, batches of {BATCH}, {args.rounds} rounds")


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("models", nargs="+", metavar="NAME=MODEL")
    options.add_argument("--sources", type=Path, required=True)
    options.add_argument("--references", type=Path, required=True)
    options.add_argument("--languages", required=True, metavar="SOURCE-TARGET")
    options.add_argument("--sentences", type=int, default=128)
    options.add_argument("--beam", type=int, default=4)
    options.add_argument("--max-length-ratio", type=float, default=2.5)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--threads", type=int, default=2)
    return options.parse_args()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _forced(
    bundle: Bundle,
    languages: Languages,
    settings: MeasurementSettings,
    sources: Sequence[str],
    references: Sequence[str],
) -> AsLongAsReferences:
    lengths = [len(tokens) + 1 for tokens in bundle.decoder.encode_batch(references)]
    translate = translator(bundle, languages, settings, AsLongAsReferences)
    assert isinstance(translate, AsLongAsReferences)
    translate.wanted = dict(zip(sources, lengths, strict=True))
    return translate


def _in_turn(ways: Mapping[str, Translator], sources: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Sentences per second of each round, after a batch to warm up on."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for translate in ways.values():
        translate(sources[:BATCH], BATCH)
    for _ in range(rounds):
        for name, translate in ways.items():
            start = time.perf_counter()
            translate(sources, BATCH)
            rates[name].append(len(sources) / (time.perf_counter() - start))
    return rates


def _ratio(rates: Sequence[float], others: Sequence[float]) -> str:
    """The median rate, and the median over rounds of its ratio to that of the same round, with the extremes."""
    ratios = [rate / other for rate, other in zip(rates, others, strict=True)]
    return f"{statistics.median(rates):.1f} ×{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"


if __name__ == "__main__":
    main()
