"""Whole experiments on text invented here, in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from io import StringIO
from pathlib import Path
from textwrap import dedent

from ruamel.yaml import YAML

from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.evaluation.reporting import drawing
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.execution.worker import Job, perform
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store
from toys import english, german

TINY = """\
name: tiny
languages: {source: en, target: de}
corpora:
  upstream: {folder: upstream}
  downstream: {folder: downstream}
cleaning: {drop_held_out: false}
upstream: {corpus: upstream, vocabulary: {size: 60, byte_fallback: false}}
downstream: {corpus: downstream, vocabulary: {size: 75, byte_fallback: false}}
model: {d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}
pretrain: {epochs: 2, batch_size: 500, precision: fp32, dev_sentences: 2}
finetune: {epochs: 1, max_steps: 4, batch_size: 500, precision: fp32, dev_sentences: 2}
systems:
  - {name: plain, vocabulary: upstream}
  - {name: mean, initialiser: mean}
evaluation: {beam: 1, speed_sentences: 2, speed_repeats: 1, test_sentences: 3, bootstrap_samples: 20}
"""
"""Two systems, each step of which is as short as it can be."""

LONG_PRETRAINING = "{epochs: 40, batch_size: 500, precision: fp32, dev_sentences: 2}"
"""Some seconds, in which something can happen to it."""


def tiny(**sections: str) -> str:
    """TINY with these sections, each as YAML, in place of its own or in addition."""
    yaml = YAML(typ="safe")
    whole = yaml.load(TINY) | {name: yaml.load(dedent(section)) for name, section in sections.items()}
    text = StringIO()
    yaml.dump(whole, text)
    return text.getvalue()


def written(place: Path, config: str) -> Path:
    """The configuration in a file, next to its corpora: the folders `upstream` and `downstream`."""
    (place / "config.yaml").write_text(config)
    for folder, count, seed in (("upstream", 120, 1), ("downstream", 60, 2)):
        (place / folder).mkdir()
        for split, size in (("train", count), ("dev", 4), ("test", 4)):
            for language, lines in (("en", english(size, seed)), ("de", german(size, seed))):
                (place / folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))
    return place / "config.yaml"


def planned(config: Path, *changes: str) -> Pipeline:
    """The steps of a configuration with changes; nothing runs."""
    return Pipeline(load(config, Experiment, changes), config.parent)


def finish(config: Path, *changes: str, drawn: bool = False) -> tuple[Pipeline, Store]:
    """Every step up to the report, one after another. drawn: whether the report's pictures are drawn."""
    pipeline = planned(config, *changes)
    with nullcontext() if drawn else undrawn():
        return pipeline, finish_steps([pipeline.report], config.parent)


@contextmanager
def undrawn() -> Iterator[None]:
    """Reports have a few bytes in place of their pictures, which take seconds to draw and few tests look at."""
    png, drawing.png = drawing.png, lambda figure: b"\x89PNG"
    try:
        yield
    finally:
        drawing.png = png


@cache
def provenance() -> Provenance:
    """Of this process; asked once, because two processes of Git find it out."""
    return Provenance.here()


def finish_steps(targets: Sequence[Step], place: Path) -> Store:
    """These steps and all that they need, one after another."""
    for step in in_order(targets):
        perform_step(step, place / "home")
    return Store(place / "home")


def perform_step(step: Step, home: Path, runtime: Runtime | None = None) -> None:
    """One step, unless the home has it finished."""
    perform(Job(step, home, runtime or Runtime(), 1, 0, False, provenance()))
