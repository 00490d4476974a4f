"""Whole experiments on text invented here, in this process."""

from __future__ import annotations

from pathlib import Path

from subgraft.config import Experiment
from subgraft.configfile import load
from subgraft.experiment.pipeline import Pipeline
from subgraft.experiment.provenance import Provenance
from subgraft.experiment.step import in_order
from subgraft.experiment.store import Store
from subgraft.experiment.worker import Job, perform
from subgraft.runtime import Runtime
from toys import english, german


def written(place: Path, config: str) -> Path:
    """The configuration in a file, and beside it its corpora: the folders `upstream` and `downstream`."""
    (place / "config.yaml").write_text(config)
    for folder, count, seed in (("upstream", 120, 1), ("downstream", 60, 2)):
        (place / folder).mkdir()
        for split, size in (("train", count), ("dev", 4), ("test", 4)):
            for language, lines in (("en", english(size, seed)), ("de", german(size, seed))):
                (place / folder / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))
    return place / "config.yaml"


def finish(config: Path, *changes: str) -> tuple[Pipeline, Store]:
    """Every step up to the report, one after another."""
    pipeline = Pipeline(load(config, Experiment, changes), config.parent)
    for step in in_order([pipeline.report]):
        perform(Job(step, config.parent / "home", Runtime(), 1, 0, False, Provenance.here()))
    return pipeline, Store(config.parent / "home")
