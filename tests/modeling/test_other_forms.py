"""Models that are not supported, and parts of models: named as such, with a remedy."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from subgraft.interfaces.cli import main
from toys import german_tokenizer

ADAPTER = {"peft_type": "LORA", "base_model_name_or_path": "./absent/Llama-3.2-1B"}
DEBERTA = {"model_type": "deberta-v2", "vocab_size": 90, "hidden_size": 8, "embedding_size": 4}
ELECTRA = {"model_type": "electra", "architectures": ["ElectraForPreTraining"], "vocab_size": 90}
Make = Callable[[Path], None]


def _json(directory: Path, name: str, content: Mapping[str, Any]) -> None:
    (directory / name).write_text(json.dumps(content), encoding="utf-8")


def _byt5(directory: Path) -> None:
    _json(directory, "config.json", {"model_type": "t5", "vocab_size": 384})
    _json(directory, "tokenizer_config.json", {"tokenizer_class": "ByT5Tokenizer"})


def _gguf(directory: Path) -> None:
    (directory / "model-Q4_K_M.gguf").write_bytes(b"GGUF")


def _refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda at: _json(at, "adapter_config.json", ADAPTER),
            ["a LoRA adapter of ./absent/Llama-3.2-1B", "merges it into a model that lies elsewhere"],
        ),
        (
            lambda at: _json(at, "adapter_config.json", {"peft_type": "PREFIX_TUNING"}),
            ["a PEFT adapter (PREFIX_TUNING)", "Only LoRA adapters can be merged"],
        ),
        (_gguf, ["GGUF, llama.cpp's form", "model-Q4_K_M.gguf", "subgraft convert FILE.gguf"]),
        (lambda at: (at / "model.onnx").touch(), ["ONNX"]),
        (lambda at: _json(at, "config.json", DEBERTA), ["embeddings narrower than its hidden states", "similar"]),
        (
            lambda at: _json(at, "config.json", {"model_type": "umt5"}),
            ["the family 'umt5'", "Supported families: bart", "vocab learn --like"],
        ),
        (lambda at: _json(at, "config.json", ELECTRA), ["ELECTRA discriminator", "electra-small-generator"]),
    ],
    ids=["lora", "prefix", "gguf", "onnx", "deberta", "umt5", "electra"],
)
def test_what_cannot_be_used_as_a_model_is_named(
    make: Make, message: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    make(tmp_path / "model")
    model, out = str(tmp_path / "model"), str(tmp_path / "out")
    for command in (["generate", "--model", model], ["assemble", "--model", model, "--out", out], ["advise", model]):
        more = ["--text", __file__] if command[0] == "advise" else ["--input", __file__][: 2 * (len(command) == 3)]
        said = _refused(capsys, *command, *more)
        assert said.startswith(f"subgraft: {model}: ") and all(each in said for each in message), said
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_file_of_another_form_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _gguf(tmp_path)
    said = _refused(capsys, "generate", "--model", str(tmp_path / "model-Q4_K_M.gguf"), "--input", __file__)
    assert "GGUF" in said


def test_a_model_of_bytes_has_no_subwords(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _byt5(tmp_path)
    said = _refused(capsys, "similar", "--vocab", str(tmp_path), "--token", "a")
    assert "ByT5Tokenizer reads bytes or characters" in said and "no subwords" in said


@pytest.mark.parametrize("config", [DEBERTA, ELECTRA], ids=["deberta", "electra"])
def test_their_vocabulary_can_be_used(
    config: Mapping[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    german_tokenizer().save(tmp_path)
    _json(tmp_path, "config.json", config)
    assert main(["similar", "--vocab", str(tmp_path), "--token", "▁dankbar"]) == 0
    assert "▁dank" in capsys.readouterr().out
