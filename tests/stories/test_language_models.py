"""A decoder's day, command by command, for the four layouts that most people have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import subgraft
from command_processes import ended
from published import CHECKPOINTS
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from toys import english, sentences

pytestmark = pytest.mark.slow
SHAPES = ("Llama-3.2-1B", "Qwen2.5-0.5B", "gemma-2b", "gpt2")
WORDS = "Zeichenkette Funktion Methode Klasse Puffer Ganzzahl Faden Steckdose"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    for name, lines in (("text.txt", sentences(WORDS, ["", "n", "en"], 1500, 5)), ("other.txt", english(400, 5))):
        (tmp_path / name).write_text("".join(f"{line} {n % 97}\n" for n, line in enumerate(lines)), encoding="utf-8")
    (tmp_path / "prompts.txt").write_text("Zeichenkette und\nFunktion\n", encoding="utf-8")
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(list(arguments))
    said = capsys.readouterr()
    assert code == 0, (arguments, said.err)
    return said.out


def as_transformers_reads_it(directory: Path, lines: list[str]) -> None:
    """transformers loads the directory without remote code, and cuts the lines as Subgraft does."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model: Any = AutoModelForCausalLM.from_pretrained(directory)
    ours = Bundle.load(directory).decoder
    for line in lines:
        ids = tokenizer(line, add_special_tokens=False).input_ids
        assert ids == ours.encode(line) and tokenizer.decode(ids) == line
    with torch.no_grad():
        assert model(torch.tensor([ids])).logits.isfinite().all()


@pytest.mark.parametrize("shape", SHAPES)
def test_every_command_that_takes_a_language_model(shape: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CHECKPOINTS[shape].publish(here / "model")
    capsys.readouterr()  # saving a model logs to standard output
    lines = (here / "text.txt").read_text(encoding="utf-8").splitlines()[:20]
    advice = json.loads(run(capsys, "advise", "model", "--text", "text.txt", "--json"))
    old = next(option["tokens_per_sentence"] for option in advice["options"])
    run(capsys, "vocab", "learn", "--text", "text.txt", "--size", "400", "--like", "model", "--out", "own")
    run(capsys, "vocab", "extend", "model", "--text", "text.txt", "--add", "60", "--out", "extended")
    run(capsys, "vocab", "trim", "model", "--text", "text.txt", "--out", "trimmed")
    compared = run(capsys, "vocab", "compare", "model", "extended", "--text", "text.txt")
    assert compared.startswith("60 of ")
    for name in ("extended", "own"):
        run(capsys, "transfer", "--model", "model", "--vocab", name, "--method", "mean", "--out", f"with-{name}")
        as_transformers_reads_it(here / f"with-{name}", lines)
    scored = json.loads(
        run(capsys, "evaluate", "--model", "with-extended", "--text", "text.txt", "--baseline", "model", "--json")
    )
    assert scored["model"]["bits_per_character"] > 0 < scored["baseline"]["bits_per_character"], scored
    written = run(capsys, "generate", "--model", "with-extended", "--input", "prompts.txt", "--beam", "1")
    assert len(written.splitlines()) == 2
    assert old > 0 and subgraft.load(here / "with-extended").bundle.decoder.encode(lines[0])


@pytest.mark.ray
@pytest.mark.parametrize("shape", SHAPES)
def test_a_fit_finetunes_and_serves_its_result(shape: str, here: Path) -> None:
    CHECKPOINTS[shape].publish(here / "model")
    arguments = ["fit", "model", "--text", "text.txt", "--other", "other.txt", "--only-this-text", "--out", "fitted"]
    code, said = ended(here, [*arguments, "--quick", "--characters", "20000"])
    assert code == 0, said
    lines = (here / "text.txt").read_text(encoding="utf-8").splitlines()[:20]
    as_transformers_reads_it(here / "fitted" / "model", lines)
    result = subgraft.finetune("model", text=here / "text.txt", steps=3, out=here / "finetuned", progress=False)
    as_transformers_reads_it(here / "finetuned", lines)
    assert result is not None
