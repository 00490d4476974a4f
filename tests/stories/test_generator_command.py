"""`subgraft generator train` as a user types it, and `subgraft transfer` with what it made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from subgraft.modeling.bundle import Bundle
from toys import SHAPE, build_marian, english, english_tokenizer, german, german_tokenizer


def _subgraft(home: Path, *arguments: object) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "subgraft", *map(str, arguments)],
        env={**os.environ, "SUBGRAFT_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=400,
        check=False,
    )
    return ended.returncode, ended.stdout


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    source, target = english_tokenizer(), german_tokenizer()
    made = build_marian(source, target, seed=1, **SHAPE | {"max_positions": 300})
    Bundle(made, source, target).save(tmp_path / "model")
    for language, lines in (("en", english(200)), ("de", german(200))):
        (tmp_path / f"text.{language}").write_text("".join(f"{line}\n" for line in lines))
    german_tokenizer(140).save(tmp_path / "vocabulary")
    return tmp_path / "model"


@pytest.mark.slow
@pytest.mark.ray
def test_a_network_is_trained_for_a_model_and_used_for_a_task(model: Path, tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "network"
    pairs = ("--pairs", tmp_path / "text.en", tmp_path / "text.de", "--languages", "en-de")
    train = ("generator", "train", "--model", model, *pairs, "--steps", 2, "--out")
    code, said = _subgraft(home, *train, out)
    assert code == 0, said
    assert {path.name for path in out.iterdir()} >= {"generator.json", "network.safetensors"}
    fitted = (
        "--vocab",
        tmp_path / "vocabulary",
        "--method",
        "network",
        "--generator",
        out,
        "--out",
        tmp_path / "fitted",
    )
    code, said = _subgraft(home, "transfer", "--model", model, *fitted)
    assert code == 0, said
    assert "unseen" in said and (tmp_path / "fitted" / "config.json").is_file()
    # The work is the store's: another directory gets the same network without training it again.
    code, said = _subgraft(
        home, "generator", "train", "--model", model, *pairs, "--steps", 2, "--out", tmp_path / "two"
    )
    assert code == 0 and "[started]" not in said, said
    assert (tmp_path / "two" / "network.safetensors").read_bytes() == (out / "network.safetensors").read_bytes()


def test_mistakes_are_reported_before_any_work(model: Path, tmp_path: Path) -> None:
    asked = ("generator", "train", "--model", model, "--languages", "en-de", "--out", tmp_path / "out")
    code, said = _subgraft(tmp_path / "home", *asked, "--pairs", tmp_path / "text.en", tmp_path / "absent.de")
    assert code == 2 and "absent.de: no such file" in said
    code, said = _subgraft(tmp_path / "home", *asked)
    assert code == 2 and "--pairs" in said
    full = (*asked[:-1], model)
    code, said = _subgraft(tmp_path / "home", *full, "--pairs", tmp_path / "text.en", tmp_path / "text.de")
    assert code == 2 and "not an empty directory" in said
    assert not (tmp_path / "home").exists()
