"""A fit of text that is killed again and again ends in the same model, to the byte."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from command_processes import ended, started
from published import CHECKPOINTS
from subgraft.base.files import file_digest
from toys import english, sentences

pytestmark = [pytest.mark.ray, pytest.mark.slow]
KILLS = 10
TIMES = ("record.json", "curve.json")  # have the seconds of a training
FIT = ["fit", "../model", "--text", "../text.txt", "--other", "../other.txt", "--out", "fitted", "--quick"]
WORDS = "Zeichenkette Funktion Methode Klasse Puffer Ganzzahl Faden Steckdose"


def results(place: Path) -> dict[str, Any]:
    """The digest of each file of the model, the scores of every evaluation, and the weights of every training."""
    files = sorted(path for path in (place / "fitted" / "model").iterdir() if path.name not in TIMES)
    model = {path.name: file_digest(path) for path in files}
    evaluations = sorted((place / "home" / "store" / "evaluate").glob("*/evaluation.json"))
    bits = [json.loads(path.read_text("utf-8"))["bits_per_character"] for path in evaluations]
    weights = sorted(file_digest(path) for path in (place / "home" / "store" / "finetune").glob("*/model.safetensors"))
    return {**model, "bits": bits, "weights": weights}


def test_a_fit_that_is_killed_at_ten_points_ends_the_same(tmp_path: Path) -> None:
    CHECKPOINTS["gpt2"].publish(tmp_path / "model")
    for name, lines in (("text.txt", sentences(WORDS, ["", "n", "en"], 1500, 5)), ("other.txt", english(400, 5))):
        (tmp_path / name).write_text("".join(f"{line} {n % 97}\n" for n, line in enumerate(lines)), encoding="utf-8")
    places = tmp_path / "whole", tmp_path / "killed"
    for place in places:
        place.mkdir()
    began = time.monotonic()
    code, said = ended(places[0], FIT)
    duration = time.monotonic() - began
    assert code == 0, said
    # Two measurements of a model as small as this one need not choose one precision.
    shutil.copytree(places[0] / "home" / "measured", places[1] / "home" / "measured")
    killed = 0
    for number in range(1, KILLS + 1):
        with started(places[1], FIT) as process:
            try:
                process.wait(duration * number / (KILLS + 1))
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
    assert killed >= KILLS // 2
    code, said = ended(places[1], FIT)
    assert code == 0, said
    assert results(places[1]) == results(places[0])
