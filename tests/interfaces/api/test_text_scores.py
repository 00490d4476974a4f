"""Bits of a text under language models: equal to transformers', with intervals, and as a command."""

from __future__ import annotations

import json
from math import log
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from published import CHECKPOINTS
from subgraft.base.errors import UserError
from subgraft.interfaces.api.model import load
from subgraft.interfaces.api.text_scores import compare_on_text, measure_text
from subgraft.interfaces.cli import main
from toys import english, english_tokenizer, german_tokenizer, marian

LINES = [*english(30, 5), "Grüße aus München"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["gpt2", "Llama-2-7b", "gemma-2b", "Qwen2.5-0.5B"])
def test_bits_are_those_of_transformers(name: str, text: Path, tmp_path: Path) -> None:
    """To the precision of weights that are published in half."""
    CHECKPOINTS[name].publish(tmp_path / "model")
    measured = measure_text(tmp_path / "model", [text])
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    decoder = load(tmp_path / "model").bundle.decoder
    start = model.config.bos_token_id
    nats = 0.0
    for line in LINES:
        ids = torch.tensor([[start, *decoder.encode(line), start]])
        with torch.no_grad():
            nats += float(model(input_ids=ids, labels=ids).loss) * (ids.shape[1] - 1)
    assert measured.bits_per_character == pytest.approx(nats / log(2) / sum(map(len, LINES)), rel=1e-3)
    assert measured.bits_per_byte == pytest.approx(nats / log(2) / sum(len(line.encode()) for line in LINES), rel=1e-3)
    assert measured.interval.low < measured.bits_per_character < measured.interval.high
    assert (measured.lines, measured.windowed) == (len(LINES), 0)


def test_two_models_are_compared_on_the_same_lines(text: Path, tmp_path: Path) -> None:
    for name in ("gpt2", "Llama-2-7b"):
        CHECKPOINTS[name].publish(tmp_path / name)
    with text.open("a", encoding="utf-8") as file:
        file.write("ein Wort " * 100 + "\n")
    compared = compare_on_text(tmp_path / "gpt2", tmp_path / "Llama-2-7b", [text])
    assert compared.model.lines == compared.baseline.lines == len(LINES) + 1 and compared.model.windowed == 1
    difference = compared.model.bits_per_character - compared.baseline.bits_per_character
    assert compared.difference == pytest.approx(difference)
    assert compared.interval.low < difference < compared.interval.high
    same = compare_on_text(tmp_path / "gpt2", tmp_path / "gpt2", [text])
    assert same.difference == 0 and same.p_value == 1


def test_what_exceeds_the_context_is_read_in_overlapping_windows(tmp_path: Path) -> None:
    """All tokens count once; each is predicted from at least half of the context, as a loop over one line shows."""
    CHECKPOINTS["gpt2"].publish(tmp_path / "model")
    line = " ".join(english(120, 5))
    (tmp_path / "text.txt").write_text(line + "\n", encoding="utf-8")
    measured = measure_text(tmp_path / "model", [tmp_path / "text.txt"])
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    start, limit = model.config.bos_token_id, model.config.max_position_embeddings
    ids = [start, *load(tmp_path / "model").bundle.decoder.encode(line), start]
    assert len(ids) > 3 * limit
    nats, known = 0.0, 1
    while known < len(ids):
        begin = max(0, known - limit // 2)
        end = min(begin + limit, len(ids))
        window = torch.tensor([ids[begin:end]])
        labels = window.clone()
        labels[:, : known - begin] = -100
        with torch.no_grad():
            nats += float(model(input_ids=window, labels=labels).loss) * (end - known)
        known = end
    assert measured.bits_per_character == pytest.approx(nats / log(2) / len(line), rel=1e-3)
    assert (measured.lines, measured.windowed) == (1, 1)


def test_the_command_prints_bits(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CHECKPOINTS["gpt2"].publish(tmp_path / "model")
    command = ["evaluate", "--model", str(tmp_path / "model"), "--text", str(text)]
    assert main([*command, "--baseline", str(tmp_path / "model")]) == 0
    said = capsys.readouterr().out
    assert "bits per character\t" in said and "difference\t+0.0000" in said
    assert main([*command, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["bits_per_byte"] < record["bits_per_character"] and record["lines"] == len(LINES)
    assert main([*command, "--metric", "CIDEr"]) == 2 and "leave out --metric" in capsys.readouterr().err
    labels = ["evaluate", "--model", "model", "--labels", "a.csv", "--baseline", "model"]
    assert main(labels) == 2 and "leave out --baseline" in capsys.readouterr().err


def test_what_continues_no_text_is_refused(text: Path, tmp_path: Path) -> None:
    marian().save_pretrained(tmp_path / "model")
    english_tokenizer().save(tmp_path / "model" / "encoder")
    german_tokenizer().save(tmp_path / "model" / "decoder")
    with pytest.raises(UserError, match="this model does not continue text"):
        measure_text(tmp_path / "model", [text])
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(UserError, match=r"there is no text$"):
        measure_text(tmp_path / "model", [tmp_path / "empty.txt"])
