"""What models with a large softmax reach in equal time, as in table 2 and figure 6 of Zheng et al. (EMNLP 2021).

    SUBGRAFT_DATA=… python studies/equal_time.py --out DIR [--sizes 30000 60000] [--seconds 240] [--seeds 1]
        [--width 64] [--batch 2000] [--neighbours 50] [--rebuild-every 100] [--drawn 6000]

An mBART of ten languages learns to restore sentences, each from its noised self, for so many CPU seconds, searches of
neighbours among them. Two vocabularies, the one twice the other, both learnt on the same text; the large one with the
full softmax (the faster of two: all logits at once), and with sampled ones, and with tables of half the width. Spans of
whole words are hidden, the same for each vocabulary, so that all models are asked for the same text: dev bits per
character, always under the full softmax, mean the same for all. Batches have so many characters, the same sentences.

Also reported: how much probability a model gives, on dev text, to tokens that were never among the candidates of any of
its updates, and how many these are. DIR/runs.jsonl keeps what is finished, so that the study goes on where it stopped;
then it writes table.md and equal_time.png, and prints the table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from equal_time_report import Run, write
from finished_runs import FinishedRuns, exit_code
from subgraft.base.errors import UserError
from subgraft.config.models import MBartSettings
from subgraft.config.training import (
    NearestTargets,
    NoiseContrastive,
    PretrainSettings,
    TargetSamplingSettings,
    UniformTargets,
)
from subgraft.data.sources.paths import require_data_folder
from subgraft.data.text.batches import BatchPlan, evenly_spaced
from subgraft.data.text.encoded import encode
from subgraft.data.text.noise import Noise
from subgraft.data.text.reading import lines
from subgraft.evaluation.metrics.bits_per_character import bits_per_character, count_characters
from subgraft.modeling.families import family_named, language_code
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.distributed import Workers
from subgraft.training.objectives.compute.embedding_view import ModelEmbeddings, counted_states
from subgraft.training.objectives.compute.interface import Concatenation
from subgraft.training.objectives.compute.seq2seq import Example, Seq2SeqBatch, Seq2SeqData, Seq2SeqLoss, top_states
from subgraft.training.objectives.compute.target_sampling import (
    SampledBatch,
    SampledLoss,
    TargetSampling,
    target_sampling,
)
from subgraft.training.objectives.denoising import DenoisingSettings
from timed_training import trained

EVERYDAY = {
    "en_XX": "en-fr/tatoeba/train.en.gz",
    "fr_XX": "en-fr/tatoeba/train.fr.gz",
    "de_DE": "en-de/tatoeba/train.de.gz",
}
TESTAMENTS = {
    "eu_XX": "Basque-NT",
    "kab_XX": "Kabyle-NT",
    "lv_LV": "Latvian-NT",
    "sw_KE": "Swahili-NT",
    "uk_UA": "Ukranian-NT",
    "wo_XX": "Wolof-NT",
    "zu_XX": "Zulu-NT",
}
EVERYDAY_LINES, DEV_LINES = 60_000, 20
LONGEST, MAX_LENGTH = 300, 320
LAYERS, HEADS = 2, 4


@dataclass(frozen=True)
class Way:
    """How a model is trained. large: which vocabulary.  half: tables of half the width."""

    large: bool = True
    sampling: TargetSamplingSettings | None = None
    half: bool = False


def ways(neighbours: int, rebuild_every: int, drawn: int) -> dict[str, Way]:
    nearest = NearestTargets(neighbours=neighbours, rebuild_every=rebuild_every)
    mended = NearestTargets(neighbours=neighbours, rebuild_every=rebuild_every, drawn=drawn)
    return {
        "small": Way(large=False),
        "large": Way(),
        "nearest": Way(sampling=nearest),
        "nearest, half": Way(sampling=nearest, half=True),
        "nearest and drawn": Way(sampling=mended),
        "uniform": Way(sampling=UniformTargets(drawn=drawn)),
        "noise-contrastive": Way(sampling=NoiseContrastive(drawn=drawn)),
        "nearest and drawn, half": Way(sampling=mended, half=True),
    }


class NoisedLines:
    """Sentences of one language, each from its noised self: the same words are hidden under every vocabulary."""

    def __init__(self, text: Sequence[str], tokenizer: Tokenizer, language: str, seed: int) -> None:
        encoded = encode(text, tokenizer)
        self._sentences = encoded.sequences
        if int(self._sentences.lengths.max()) + 2 > MAX_LENGTH:
            raise UserError(f"a sentence of {language} has more than {MAX_LENGTH} tokens under this vocabulary")
        self.lengths: np.ndarray = encoded.characters.astype(np.int64) + 1
        self._end, self._code = tokenizer.special["eos"], language_code(tokenizer, language)
        self._noise, self._seed = Noise({"infilling": 0.35}, DenoisingSettings().poisson_lambda, tokenizer), seed

    def __len__(self) -> int:
        return len(self._sentences)

    def example(self, index: int, epoch: int) -> Example:
        target, rng = self._sentences[index], np.random.default_rng([self._seed, epoch, index])
        source = self._noise([target], (), rng)
        ending = [self._end, self._code]
        return Example(source + ending, [*target, *ending], self._code, len(source), len(target))


class Restored:
    """Held-out text and its examples."""

    def __init__(self, texts: Mapping[str, Sequence[str]], tokenizer: Tokenizer) -> None:
        self.examples = _examples(texts, tokenizer, seed=0)
        pad = tokenizer.special["pad"]
        self.data = Seq2SeqData(self.examples, pad, pad)
        self.characters = count_characters(line for text in texts.values() for line in text)

    def batches(self) -> Iterable[Seq2SeqBatch]:
        return (self.data.batch(indices, 0) for indices in BatchPlan(self.examples.lengths, 2000, seed=0).epoch(0))

    @torch.no_grad()
    def bits(self, loss: Seq2SeqLoss) -> float:
        """Bits per character of the sentences, their ends and languages included."""
        return bits_per_character(sum(float(loss(batch)["loss"]) for batch in self.batches()), self.characters)

    @torch.no_grad()
    def share(self, model: Any, tokens: Tensor) -> float:
        """The probability of some tokens, bool [V], where a token is to be predicted: the mean over all of these."""
        total, count = 0.0, 0
        decoder = side(model, "decoder")
        for batch in self.batches():
            picked, _ = counted_states(top_states(model, batch), batch.labels, decoder)
            assert decoder.output is not None
            probabilities = functional.linear(picked, decoder.output.weight, decoder.bias).softmax(dim=1)
            total += float(probabilities[:, tokens].sum())
            count += len(picked)
        return total / count


def _examples(texts: Mapping[str, Sequence[str]], tokenizer: Tokenizer, seed: int) -> Concatenation[Example]:
    return Concatenation([NoisedLines(text, tokenizer, language, seed) for language, text in texts.items()])


class Watched:
    """A target sampling that counts which tokens have been candidates, and how many at a time."""

    def __init__(self, sampling: TargetSampling, vocabulary: int) -> None:
        self._sampling = sampling
        self.every = sampling.every
        self.seen = torch.zeros(vocabulary, dtype=torch.bool)
        self.sizes: list[int] = []

    def prepare(self, batches: Sequence[Any], step: int, workers: Workers) -> list[SampledBatch]:
        sampled = self._sampling.prepare(batches, step, workers)
        for each in sampled:
            self.seen[each.candidates] = True
            self.sizes.append(len(each.candidates))
        return sampled

    def look_ahead(self, batches: Iterable[Any], workers: Workers) -> None:
        self._sampling.look_ahead(batches, workers)

    def measured(self) -> dict[str, float]:
        return self._sampling.measured()

    def state(self) -> dict[str, Tensor]:
        return self._sampling.state()

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        self._sampling.load_state(tensors)


class WholeLogitsLoss(Seq2SeqLoss):
    """All logits at once: what a plain training loop does, and at these sizes faster than slices of them."""

    def forward(self, batch: Seq2SeqBatch) -> dict[str, Tensor]:
        decoder = side(self.model, "decoder")
        assert decoder.output is not None
        picked, gold = counted_states(self.states(batch, ModelEmbeddings(self.model)).top, batch.labels, decoder)
        logits = functional.linear(picked, decoder.output.weight, decoder.bias)
        return {"loss": functional.cross_entropy(logits, gold, reduction="sum")}


@dataclass(frozen=True)
class Texts:
    """By language; the last tenth of each is held out."""

    train: Mapping[str, Sequence[str]]
    dev: Mapping[str, Sequence[str]]

    @classmethod
    def read(cls) -> Texts:
        """Everyday sentences in three languages, New Testaments in seven. Raises UserError where they are not found."""
        folder = require_data_folder("en-fr, en-de and mono")
        read = {
            code: _short(evenly_spaced(list(lines(folder / name)), EVERYDAY_LINES)) for code, name in EVERYDAY.items()
        }
        for code, name in TESTAMENTS.items():
            read[code] = _short(lines(folder / "mono" / "bible-nt" / f"{name}.txt.gz"))
        ends = {code: len(text) - len(text) // 10 for code, text in read.items()}
        dev = {code: evenly_spaced(text[ends[code] :], DEV_LINES) for code, text in read.items()}
        return cls({code: text[: ends[code]] for code, text in read.items()}, dev)


def _short(text: Iterable[str]) -> list[str]:
    return [line for line in text if line and len(line) <= LONGEST]


def run(name: str, way: Way, tokenizer: Tokenizer, texts: Texts, seed: int, args: argparse.Namespace) -> Run:
    """One training."""
    body = MBartSettings(
        d_model=args.width,
        attention_heads=HEADS,
        ffn_dim=4 * args.width,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        max_positions=MAX_LENGTH,
        dropout=0.0,
        embedding_width=args.width // 2 if way.half else None,
    )
    model = family_named(body.model_type).build(body, tokenizer, tokenizer, seed)
    settings = PretrainSettings(
        epochs=1000,
        batch_size=args.batch,
        batch_unit="characters",
        max_length=MAX_LENGTH,
        learning_rate=args.rate,
        warmup_steps=100,
        label_smoothing=0.0,
    )
    dev, pad = Restored(texts.dev, tokenizer), tokenizer.special["pad"]
    watched = None
    if way.sampling is not None:
        watched = Watched(target_sampling(way.sampling, model, seed), len(tokenizer))
    points = trained(
        WholeLogitsLoss(model) if watched is None else SampledLoss(Seq2SeqLoss(model)),
        Seq2SeqData(_examples(texts.train, tokenizer, seed), pad, pad),
        settings,
        seed=seed,
        evaluate=lambda: dev.bits(Seq2SeqLoss(model)),
        marks=[args.seconds * part / 8 for part in range(1, 9)],
        unit="seconds",
        callback=watched,
    )
    never = None if watched is None else ~watched.seen
    return Run(
        way=name,
        seed=seed,
        size=len(tokenizer),
        parameters=model.num_parameters(),
        candidates=len(tokenizer) if watched is None else float(np.mean(watched.sizes)),
        never=0 if never is None else int(never.sum()),
        share_of_never=0.0 if never is None else dev.share(model, never),
        curve=[asdict(point) for point in points],
    )


def study(args: argparse.Namespace) -> list[Run]:
    """All runs, those that DIR/runs.jsonl has already among them. Raises UserError."""
    chosen = ways(args.neighbours, args.rebuild_every, args.drawn)
    texts = Texts.read()
    runs = FinishedRuns(args.out / "runs.jsonl", Run)
    together = [line for text in texts.train.values() for line in text]
    codes = list(texts.train)
    small, large = (
        learn(together, kind="bpe", size=size, byte_fallback=True, mask=True, languages=codes) for size in args.sizes
    )
    for seed in args.seeds:
        for name in args.ways or chosen:
            if any((each.way, each.seed) == (name, seed) for each in runs.done):
                continue
            runs.add(run(name, chosen[name], large if chosen[name].large else small, texts, seed, args))
    return runs.done


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, required=True, metavar="DIR")
    options.add_argument("--sizes", type=int, nargs=2, default=[30_000, 60_000], metavar=("SMALL", "LARGE"))
    options.add_argument("--ways", nargs="+", choices=list(ways(1, 1, 1)), help="some of them only")
    options.add_argument("--seconds", type=float, default=240.0, help="of CPU time, for each training")
    options.add_argument("--seeds", type=int, nargs="+", default=[1])
    options.add_argument("--width", type=int, default=64)
    options.add_argument("--batch", type=int, default=2000, help="characters")
    options.add_argument("--rate", type=float, default=3e-3)
    options.add_argument("--neighbours", type=int, default=50)
    options.add_argument("--rebuild-every", type=int, default=100)
    options.add_argument("--drawn", type=int, default=6000)
    options.add_argument("--threads", type=int, default=1)
    args = options.parse_args(arguments)
    torch.set_num_threads(args.threads)
    return exit_code("equal_time", lambda: print(write(study(args), args.out), end=""))


if __name__ == "__main__":
    sys.exit(main())
