"""What a plan warns of: vocabularies beyond their text, frozen rows that were drawn, fast tied embeddings."""

from __future__ import annotations

from pathlib import Path

import pytest

from published import CHECKPOINTS
from small_experiments import tiny, written
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.plan_warnings import frozen_random_rows
from subgraft.experiments.session import Session
from subgraft.interfaces.cli import main


@pytest.mark.parametrize(("size", "message"), [(75, False), (20_000, True)])
def test_a_vocabulary_beyond_its_text_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], size: int, message: bool
) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    config = written(tmp_path, tiny(downstream=f"{{corpus: downstream, vocabulary: {{size: {size}}}}}"))
    assert main(["plan", str(config)]) == 0
    out = capsys.readouterr().out
    assert (f"{size:,} pieces are asked for, and its text supports no more than" in " ".join(out.split())) == message
    assert not (tmp_path / "home").exists()


DRAWN = (
    "systems=[{name: plain, vocabulary: upstream}, {name: mean, initialiser: mean},"
    " {name: random, initialiser: random}, {name: matched, initialiser: random-matched, train: all},"
    " {name: none, pretraining: none}, {name: frozen, initialiser: random, embedding_learning_rate: 0}]"
)


def frozen(repository: Path, *changes: str) -> list[str]:
    lines = frozen_random_rows(load(repository / "configs" / "quickstart.yaml", Experiment, [DRAWN, *changes]))
    assert all("stay so" in line for line in lines)
    return [line.split()[1].rstrip(":") for line in lines]


def test_only_systems_whose_random_rows_stay_are_named(repository: Path) -> None:
    assert frozen(repository) == ["frozen"]
    assert frozen(repository, "finetune.train=body") == ["random", "none", "frozen"]
    assert frozen(repository, "finetune.embedding_learning_rate=0") == ["random", "matched", "none", "frozen"]


TIED = (
    "systems=[{name: plain, vocabulary: upstream}, {name: slow, initialiser: mean, embedding_learning_rate: 6.0e-5},"
    " {name: frozen, vocabulary: upstream, train: body}, {name: untied, vocabulary: upstream, untie: true}]"
)


def fast_tied(repository: Path, checkpoint: Path, *changes: str) -> list[str]:
    changes = (
        f"upstream.checkpoint={checkpoint}",
        "finetune.embedding_learning_rate=null",
        "finetune.max_length=16",
        TIED,
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
    assert fast_tied(repository, tmp_path) == fast
    assert fast_tied(repository, tmp_path, "finetune.embedding_learning_rate=6e-5") == []
