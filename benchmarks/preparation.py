"""How much of a generator training step is spent on preparing its data (re-segmentation, similar tokens, padding).

    python benchmarks/preparation.py [--sentences 20000] [--steps 12]

On English to French tatoeba from SUBGRAFT_DATA, with a model of the `small` preset and 8,000 subwords a side. Similar
sets are found and cached as in training; the first batches, with a cold cache, are printed apart.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from subgraft.config import Languages, ResegmentationSettings, TrainingSettings
from subgraft.errors import UserError
from subgraft.grafting.generator import Generator
from subgraft.grafting.generator_loss import GeneratorLoss
from subgraft.grafting.simulation import Simulator
from subgraft.models.build import build_marian
from subgraft.models.conditioning import conditioning
from subgraft.models.sides import side
from subgraft.objectives.translation import Translation
from subgraft.presets import PRESETS
from subgraft.text.batches import BatchPlan
from subgraft.text.places import data_folder
from subgraft.text.reading import lines
from subgraft.training.engine import PlainEngine
from subgraft.vocabulary.learn import learn

LANGUAGES = Languages(source="en", target="fr")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--sentences", type=int, default=40000)
    options.add_argument("--steps", type=int, default=12)
    given = options.parse_args()
    simulator, loss, settings = _prepare(given.sentences)
    engine = PlainEngine(loss, settings, torch.device("cpu"))
    preparing: list[float] = []
    stepping: list[float] = []
    plan = BatchPlan(simulator.lengths, settings.batch_size, seed=1).epoch(0)
    for indices in plan[: given.steps]:
        started = time.perf_counter()
        batch = simulator.batch(indices, epoch=0)
        prepared = time.perf_counter()
        scale = {name: weight / batch.counts[name] for name, weight in loss.weights.items()}
        engine.accumulate(batch, scale, last=True)
        engine.step(1e-3)
        preparing.append(prepared - started)
        stepping.append(time.perf_counter() - started)
    shares = [part / whole for part, whole in zip(preparing, stepping, strict=True)]
    print(f"first batch, cold cache: {preparing[0]:.3f} s of {stepping[0]:.3f} s ({shares[0]:.1%})")
    warm = statistics.median(shares[1:])
    print(
        f"later batches, median:   {statistics.median(preparing[1:]):.3f} s of {statistics.median(stepping[1:]):.3f} s"
    )
    print(f"share of a step spent on data: {warm:.1%} (target: under 15 %)")


def _prepare(sentences: int) -> tuple[Simulator, GeneratorLoss, TrainingSettings]:
    folder = data_folder()
    if folder is None:
        raise UserError("needs real text", mend="Set SUBGRAFT_DATA to a folder that holds en-fr/tatoeba.")
    pairs = list(itertools.islice(_pairs(folder / "en-fr" / "tatoeba"), sentences))
    source = learn((pair[0] for pair in pairs), kind="unigram", size=6000)
    target = learn((pair[1] for pair in pairs), kind="unigram", size=8000)
    small = PRESETS["small"]
    settings = TrainingSettings(**small["generator_training"])
    shape = {"attention_dropout": 0.0, "activation_dropout": 0.0, "max_positions": 512, **small["model"]}
    model = build_marian(source, target, seed=1, **shape)
    form = conditioning("marian", source, target, LANGUAGES)
    examples = Translation(pairs, source, target, form, settings.max_length)
    padding = (source.special["pad"], target.special["pad"])
    simulator = Simulator(examples, target, "decoder", ResegmentationSettings(), 10, 1, padding)
    sides = {"encoder": side(model, "encoder"), "decoder": side(model, "decoder")}
    generator = Generator("patt", int(model.config.d_model))
    loss = GeneratorLoss(model, generator, sides, "decoder", 0.5, 0.0, "input")  # type: ignore[arg-type]
    return simulator, loss, settings


def _pairs(folder: Path) -> Iterator[tuple[str, str]]:
    return zip(lines(folder / "train.en.gz"), lines(folder / "train.fr.gz"), strict=True)


if __name__ == "__main__":
    main()
