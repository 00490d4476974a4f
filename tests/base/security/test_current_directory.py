"""Code in the folder of a command, or next to the files that it reads, runs in no process of any command."""

from __future__ import annotations

from pathlib import Path

import pytest

from canaries import Canaries
from small_experiments import tiny, written
from small_searches import CONFIG as SEARCH
from torch_form import published
from toys import english, german

ALLOCATION = """\
name: tiny
texts: [{texts: {en: {files: {train: [train.en]}}}}]
totals: [340]
curves: {sizes: [60, 90]}
baselines: {joint: false}
"""


@pytest.fixture
def canaries(tmp_path: Path) -> Canaries:
    """A folder of canaries, in which a model and some text are, too."""
    planted = Canaries.planted(tmp_path)
    published(planted.folder / "model")
    for name, lines in (("train.en", english(80, 5)), ("train.de", german(80, 5))):
        (planted.folder / name).write_text("".join(f"{line}\n" for line in lines))
    return planted


def test_of_commands_without_ray(canaries: Canaries) -> None:
    written(canaries.folder, tiny())
    said = canaries.run(
        ("doctor",),
        ("plan", "config.yaml"),
        ("corpora", "check", "upstream", "--languages", "en-de"),
        ("convert", "model", "--out", "converted"),
        ("vocab", "learn", "--text", "train.de", "--size", "290", "--like", "converted", "--out", "vocabulary"),
        ("vocab", "compare", "converted", "vocabulary", "--text", "train.de"),
        ("transfer", "--model", "converted", "--vocab", "vocabulary", "--method", "mean", "--out", "moved"),
        ("export", "moved", "--to", "ctranslate2", "--out", "exported"),
        ("generate", "--model", "moved", "--input", "upstream/test.en", "--languages", "en-de"),
        ("store", "list"),
    )
    failed = [line for line in said.splitlines() if line.startswith("CODE ") and not line.startswith("CODE 0")]
    assert not failed, said


@pytest.mark.ray
def test_of_workers(canaries: Canaries) -> None:
    (canaries.folder / "allocation.yaml").write_text(ALLOCATION)
    assert "CODE 0" in canaries.run(("vocab", "allocate", "allocation.yaml"))


@pytest.mark.slow
@pytest.mark.ray
def test_of_workers_of_one_training_and_of_trials(canaries: Canaries) -> None:
    config = written(canaries.folder, SEARCH)
    said = canaries.run(
        ("run", config.name, "runtime.workers=2", "systems=[{name: plain, vocabulary: upstream}]", "search=null"),
        ("search", config.name, "search.trials=1", "search.concurrent=1"),
    )
    assert said.count("CODE 0") == 2, said


@pytest.mark.slow
@pytest.mark.ray
def test_of_a_fit(canaries: Canaries) -> None:
    for name, lines in (("text.en", english(400, 5)), ("text.de", german(400, 5))):
        (canaries.folder / name).write_text("".join(f"{line}\n" for line in lines))
    files = ("--pairs", "text.en", "text.de", "--languages", "en-de", "--out", "fitted")
    said = canaries.run(("convert", "model", "--out", "converted"), ("fit", "converted", *files, "--quick"))
    assert said.count("CODE 0") == 2, said
