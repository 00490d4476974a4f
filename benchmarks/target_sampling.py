"""A training step over a large vocabulary: the full softmax and sampled targets, and how a masked model learns.

    python benchmarks/target_sampling.py [--vocabulary 250000] [--width 256] [--tokens 2000] [--steps 5] [--threads 1]
    python benchmarks/target_sampling.py --curves [--vocabulary 20000] [--width 64] [--steps 300]

The first counts CPU seconds of whole steps, AdamW's dense update of the table included, which every way pays. All ways
take the same batches in turn in one process, so read the ratios: 1 is the faster of the two full softmaxes, all logits
at once and slices of them. Tokens are drawn by Zipf's law (p ~ 1 / (rank + 2.7)), so that batches have about as many
distinct targets as text has; the table is random, which makes for more candidates than a trained one. Columns n = ...
are steps with their share of a search of the neighbours of n steps' targets, by the seconds of a thousand tokens; from
the `break-even` n on, that share is less than what a step saves.

The second trains a model each way, from one beginning and by the same batches of real text (SUBGRAFT_DATA), and prints
the dev loss under the full softmax after so many steps, and the seconds of the steps with their searches.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM, PreTrainedModel

from subgraft.config.models import BertSettings
from subgraft.config.training import (
    NearestTargets,
    NoiseContrastive,
    PretrainSettings,
    TargetSamplingSettings,
    UniformTargets,
)
from subgraft.data.sources.paths import require_data_folder
from subgraft.data.text.reading import lines
from subgraft.modeling.families import family_named
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import PlainEngine
from subgraft.training.loop import Hooks, Trainer
from subgraft.training.objectives.compute.embedding_view import ModelEmbeddings, counted_states
from subgraft.training.objectives.compute.masked import MaskedSentences
from subgraft.training.objectives.compute.single_stack import StackBatch, StackExample, StackLoss, StackStates, collate
from subgraft.training.objectives.compute.target_sampling import SampledLoss, nearest, target_sampling
from subgraft.training.objectives.masked import MaskedSettings
from subgraft.training.setup import held_out_mean

LENGTH, SHARE, MASK, SPECIAL = 40, 0.15, 4, 5
SEARCHED = 1000
LANGUAGES = ("Basque", "Kabyle", "Latvian", "Swahili", "Ukranian", "Wolof", "Zulu")
SPANS = (1, 10, 100, 500)


class Alone:
    """The only worker of a training."""

    rank, world, device = 0, 1, torch.device("cpu")

    def gathered_parameters(self) -> AbstractContextManager[None]:
        return nullcontext()


class ZipfSentences:
    """Batches of sentences of LENGTH tokens by Zipf's law, SHARE of them masked."""

    def __init__(self, vocabulary: int, tokens: int) -> None:
        weights = 1.0 / (np.arange(vocabulary - SPECIAL) + 2.7)
        self._cumulated = np.cumsum(weights / weights.sum())
        self._sentences = tokens // LENGTH

    def batch(self, number: int) -> StackBatch:
        rng = np.random.default_rng([1, number])
        drawn = SPECIAL + np.searchsorted(self._cumulated, rng.random((self._sentences, LENGTH)))
        return collate([_masked(row.clip(max=len(self._cumulated) + SPECIAL - 1), rng) for row in drawn], padding=0)

    def distinct_targets(self, batches: int) -> int:
        labels = [self.batch(number).labels for number in range(batches)]
        return len(torch.unique(torch.cat([each[each >= 0] for each in labels])))


def _masked(tokens: np.ndarray, rng: np.random.Generator) -> StackExample:
    hidden = rng.permutation(LENGTH)[: round(SHARE * LENGTH)]
    labels = np.full(LENGTH, -100)
    labels[hidden], tokens[hidden] = tokens[hidden], MASK
    return StackExample(tokens.tolist(), labels.tolist())


class WholeLogitsLoss(StackLoss):
    """What a plain training loop does: all logits of the targets at once, then `cross_entropy`."""

    def forward(self, batch: StackBatch) -> dict[str, Tensor]:
        decoder, own = side(self.model, "decoder"), ModelEmbeddings(self.model)
        assert decoder.output is not None
        picked, gold = counted_states(StackStates(self.model, batch, own).top, batch.labels, decoder)
        logits = functional.linear(picked, decoder.output.weight, decoder.bias)
        return {"loss": functional.cross_entropy(logits, gold, reduction="sum")}


class Switched(nn.Module):
    """One model, whose loss is computed by one way at a time."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model
        self.whole, self.sliced = WholeLogitsLoss(model), SampledLoss(StackLoss(model))
        self.at_once = False

    def forward(self, batch: Any) -> dict[str, Tensor]:
        sums: dict[str, Tensor] = (self.whole if self.at_once else self.sliced)(batch)
        return sums


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--curves", action="store_true")
    options.add_argument("--vocabulary", type=int)
    options.add_argument("--width", type=int)
    options.add_argument("--tokens", type=int, default=2000)
    options.add_argument("--steps", type=int)
    options.add_argument("--neighbours", type=int, nargs="+", default=[10, 25, 50, 100, 200])
    options.add_argument("--threads", type=int, default=1)
    args = options.parse_args()
    torch.set_num_threads(args.threads)
    if args.curves:
        print_curves(args.vocabulary or 20_000, args.width or 64, args.tokens, args.steps or 300)
    else:
        print_steps(args.vocabulary or 250_000, args.width or 256, args.tokens, args.steps or 5, args.neighbours)


def print_steps(vocabulary: int, width: int, tokens: int, steps: int, neighbours: Sequence[int]) -> None:
    data = ZipfSentences(vocabulary, tokens)
    batches = [data.batch(number) for number in range(steps + 1)]  # the first to warm up
    module = Switched(_bert(vocabulary, width))
    settings = PretrainSettings(max_steps=steps, batch_size=tokens, learning_rate=1e-4, warmup_steps=1)
    engine = PlainEngine(module, settings, torch.device("cpu"))
    ways = _candidates(module.model, batches, neighbours)
    seconds: dict[str, list[float]] = {"whole logits": [], "sliced logits": [], **{name: [] for name in ways}}
    for number, batch in enumerate(batches):
        for name, times in seconds.items():
            module.at_once = name == "whole logits"
            times.append(_step(engine, ways[name][number] if name in ways else batch))
    medians = {name: statistics.median(times[1:]) for name, times in seconds.items()}
    full = min(medians["whole logits"], medians["sliced logits"])
    search = _search_seconds(module.model, max(neighbours))
    targets = statistics.mean(len(torch.unique(each.labels[each.labels >= 0])) for each in batches)
    print(f"{vocabulary} subwords of width {width}, {targets:.0f} distinct targets a batch, a search {search:.4f} s")
    print(f"{'':24s}  |V'|      s    step " + "".join(f"  n={span:<5d}" for span in SPANS) + " break-even n")
    costs = {span: search * data.distinct_targets(span) / span for span in SPANS}
    for name, median in medians.items():
        size = statistics.mean(len(each.candidates) for each in ways[name]) if name in ways else vocabulary
        line = f"{name:24s} {size:7.0f} {median:6.2f} {median / full:6.2f}"
        if name.startswith("nearest"):
            line += "".join(f" {(median + cost) / full:8.2f}" for cost in costs.values())
            line += f" {_break_even(full - median, search, data)}"
        print(line, flush=True)


def _bert(vocabulary: int, width: int) -> PreTrainedModel:
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"hidden_size": width, "num_attention_heads": width // 32, "intermediate_size": 4 * width}
    return BertForMaskedLM(BertConfig(vocab_size=vocabulary, num_hidden_layers=2, **sizes))


def _candidates(
    model: PreTrainedModel, batches: Sequence[StackBatch], neighbours: Sequence[int]
) -> dict[str, Sequence[Any]]:
    """The batches as each way samples them: nearest tokens, and as many drawn as these are for 50, or the middle k."""
    ways: dict[str, Sequence[Any]] = {}
    for count in neighbours:
        sampling = target_sampling(NearestTargets(neighbours=count), model, 1)
        sampling.look_ahead(batches, Alone())
        ways[f"nearest, k = {count}"] = sampling.prepare(batches, 0, Alone())
    middle = 50 if 50 in neighbours else sorted(neighbours)[len(neighbours) // 2]
    drawn = round(statistics.mean(len(each.candidates) for each in ways[f"nearest, k = {middle}"]))
    for name, settings in _drawn(drawn).items():
        ways[name] = target_sampling(settings, model, 1).prepare(batches, 0, Alone())
    return ways


def _drawn(count: int) -> Mapping[str, TargetSamplingSettings]:
    return {"uniform": UniformTargets(drawn=count), "noise-contrastive": NoiseContrastive(drawn=count)}


def _step(engine: PlainEngine, batch: Any) -> float:
    started = time.process_time()
    engine.accumulate(batch, {"loss": 1 / batch.counts["loss"]}, last=True)
    engine.step(1e-4)
    return time.process_time() - started


def _search_seconds(model: PreTrainedModel, count: int) -> float:
    """Of one token."""
    table = side(model, "decoder").input.weight.detach()
    started = time.process_time()
    nearest(table, torch.arange(SEARCHED) * (len(table) // SEARCHED), count)
    return (time.process_time() - started) / SEARCHED


def _break_even(saved: float, search: float, data: ZipfSentences) -> str:
    """The least number of steps whose targets are searched in less time than is saved in them;"""
    spans = [*range(1, 20), *range(20, 200, 10), *range(200, 1001, 100)]
    largest = next((span for span in spans if search * data.distinct_targets(span) < saved * span), None)
    return "none to 1000" if largest is None else str(largest)


def print_curves(vocabulary: int, width: int, tokens: int, steps: int) -> None:
    train, dev = _texts()
    tokenizer = learn(train, kind="wordpiece", size=vocabulary)
    settings = PretrainSettings(
        max_steps=steps,
        batch_size=tokens,
        learning_rate=2e-3,
        warmup_steps=steps // 10,
        label_smoothing=0.0,
        max_length=128,
        evaluate_at=tuple(steps * part // 6 for part in range(1, 7)),
    )
    data, held_out = (
        MaskedSentences(text, tokenizer, MaskedSettings(), settings.max_length, 1) for text in (train, dev)
    )
    drawn = vocabulary // 10
    ways: dict[str, TargetSamplingSettings | None] = {
        "full": None,
        **{f"nearest, k = {k}": NearestTargets(neighbours=k, rebuild_every=100) for k in (10, 50, 200)},
        **_drawn(drawn),
    }
    print(f"{len(tokenizer)} subwords of width {width}; uniform and noise-contrastive draw {drawn}")
    print(f"{'':20s} {'seconds':>8s}   |V'|  dev nats per target under the full softmax, after steps")
    for name, sampling in ways.items():
        sizes: dict[str, Any] = {
            "d_model": width,
            "layers": 2,
            "attention_heads": 4,
            "ffn_dim": 4 * width,
            "max_positions": 128,
        }
        model = family_named("bert").build(BertSettings(**sizes), tokenizer, tokenizer, seed=1)
        evaluate = held_out_mean(StackLoss(model), held_out, settings, "loss")
        sizes_met: list[float] = []
        callback = None if sampling is None else target_sampling(sampling, model, 1)
        module = SampledLoss(StackLoss(model))

        def metrics(step: int, values: Mapping[str, float], met: list[float] = sizes_met) -> None:
            del step
            met.extend([values["candidates"]] if "candidates" in values else [])

        with tempfile.TemporaryDirectory() as place:
            engine = PlainEngine(module, settings, torch.device("cpu"))
            hooks = Hooks(evaluate=evaluate, metrics=metrics)
            outcome = Trainer(
                module,
                {"loss": 1.0},
                data,
                settings,
                engine,
                Checkpoints(Path(place)),
                seed=1,
                checkpoint_seconds=1e9,
                hooks=hooks,
                callback=callback,
            ).run()
        size = statistics.mean(sizes_met) if sizes_met else len(tokenizer)
        curve = "  ".join(f"{point.step}: {point.values['loss']:.3f}" for point in outcome.curve)
        print(f"{name:20s} {outcome.seconds:8.1f} {size:6.0f}  {curve}", flush=True)


def _texts() -> tuple[list[str], list[str]]:
    """New Testaments in seven languages: the last hundred verses of each, and all before them.

    Raises UserError where SUBGRAFT_DATA does not lead to them.
    """
    folder = require_data_folder("mono/bible-nt")
    texts = [list(lines(path)) for path in _files(folder / "mono" / "bible-nt")]
    return [line for text in texts for line in text[:-100]], [line for text in texts for line in text[-100:]]


def _files(folder: Path) -> Iterator[Path]:
    yield from (path for name in LANGUAGES for path in sorted(folder.glob(f"{name}*.txt.gz"))[:1])


if __name__ == "__main__":
    main()
