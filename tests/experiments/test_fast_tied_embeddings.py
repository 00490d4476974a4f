"""Tied embeddings of a pretrained language model at the body's rate are reported, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from published import CHECKPOINTS
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.session import Session

SYSTEMS = (
    "systems=[{name: plain, vocabulary: upstream}, {name: slow, initialiser: mean, embedding_learning_rate: 6.0e-5},"
    " {name: frozen, vocabulary: upstream, train: body}, {name: untied, vocabulary: upstream, untie: true}]"
)


def names(repository: Path, checkpoint: Path, *changes: str) -> list[str]:
    changes = (
        f"upstream.checkpoint={checkpoint}",
        "finetune.embedding_learning_rate=null",
        "finetune.max_length=16",
        SYSTEMS,
        *changes,
    )
    experiment = load(repository / "configs" / "language-model.yaml", Experiment, list(changes))
    lines = Session(experiment, repository).warnings()
    assert all("with three tenths of the body's learning rate" in line for line in lines)
    return [name for line in lines for name in line.split(":")[0].split(", ")]


@pytest.mark.parametrize(("published", "fast"), [("gpt2", ["plain"]), ("pythia-70m", [])])
def test_systems_with_fast_tied_embeddings_are_named(
    published: str, fast: list[str], repository: Path, tmp_path: Path
) -> None:
    CHECKPOINTS[published].publish(tmp_path)
    assert names(repository, tmp_path) == fast
    assert names(repository, tmp_path, "finetune.embedding_learning_rate=6e-5") == []
