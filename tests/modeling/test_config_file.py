"""A config.json that says what cannot be meant is refused at once, with the name of the wrong setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from subgraft.base.errors import UserError
from subgraft.modeling.families import count_parameters, vocabulary_sizes
from subgraft.modeling.hub import read_config
from subgraft.modeling.load import load_model, save_model
from subgraft.modeling.tokenizers import load_tokenizers
from toys import english_tokenizer, german_tokenizer, marian


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_model(marian(), {"encoder": english_tokenizer(), "decoder": german_tokenizer()}, tmp_path / "model")
    return tmp_path / "model"


def changed(directory: Path, change: dict[str, Any]) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, **change}))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model_type": []}, "model_type is"),
        ({"model_type": None}, "model_type is"),
        ({"dtype": "evil"}, "dtype 'evil' is not a type"),
        ({"torch_dtype": "save"}, "torch_dtype 'save' is not a type"),
        ({"encoder_layers": 10**9}, r"encoder_layers is 1,000,000,000\n.*SUBGRAFT_MAX_LAYERS"),
        ({"encoder_layers": "six"}, "encoder_layers is 'six'"),
        ({"d_model": 0}, "d_model is 0"),
        ({"decoder_ffn_dim": -1}, "decoder_ffn_dim is -1"),
        ({"vocab_size": True}, "vocab_size is True"),
        ({"vocab_size": 10**9}, "SUBGRAFT_MAX_PIECES"),
        ({"num_labels": 10**9}, "SUBGRAFT_MAX_LABELS"),
        ({"id2label": {str(i): str(i) for i in range(70_000)}}, "id2label has 70,000 labels\n.*SUBGRAFT_MAX_LABELS"),
        ({"chunk_size_feed_forward": 3}, "chunk_size_feed_forward is 3"),
        ({"max_position_embeddings": 10**12}, "SUBGRAFT_MAX_POSITIONS"),
        ({"encoder": {"num_hidden_layers": 10**9}}, "num_hidden_layers"),
        ({"pad_token_id": 10**300}, "pad_token_id is too large"),
    ],
)
def test_what_cannot_be_meant_is_refused(saved: Path, change: dict[str, Any], complaint: str) -> None:
    changed(saved, change)
    for read in (read_config, load_model, load_tokenizers):
        with pytest.raises(UserError, match=complaint):
            read(saved)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"model_type": "marian", "dropout": 1e400}', "not a finite number"),
        ('{"model_type": "marian", "dropout": Infinity}', "Infinity is not a finite number"),
        ('{"model_type": "marian", "d_model": ' + "9" * 5000 + "}", "not JSON"),
        ('{"model_type": "\\ud800"}', "half a character"),
        ('{"model_type": ' + "[" * 100_000, "nested too deeply"),
        ('{"model_type": "marian", "x": ' + "[" * 80 + "]" * 80 + "}", "nested too deeply"),
        ("[1]", "not a JSON object"),
        ("", "not JSON"),
    ],
)
def test_json_that_is_not_text_is_refused(saved: Path, text: str, complaint: str) -> None:
    (saved / "config.json").write_text(text)
    with pytest.raises(UserError, match=complaint):
        read_config(saved)


def test_a_model_far_larger_than_its_weights_is_refused_before_it_is_built(saved: Path) -> None:
    changed(saved, {"max_position_embeddings": 1 << 22, "encoder_layers": 1000, "decoder_layers": 1000})
    with pytest.raises(UserError, match="the weights hold"):
        load_model(saved)


@pytest.mark.parametrize("ask", [count_parameters, vocabulary_sizes])
def test_what_a_plan_needs_and_does_not_find_is_named(saved: Path, ask: Any) -> None:
    config = {name: value for name, value in read_config(saved).items() if name != "vocab_size"}
    with pytest.raises(UserError, match=r"config\.json does not say 'vocab_size'"):
        ask(config)


def test_how_a_model_generates_is_checked_too(saved: Path) -> None:
    (saved / "generation_config.json").write_text("[1]")
    with pytest.raises(UserError, match=r"generation_config\.json: not a JSON object"):
        load_model(saved)


def test_a_limit_is_raised_by_its_variable(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUBGRAFT_MAX_PIECES", "20")
    with pytest.raises(UserError, match="SUBGRAFT_MAX_PIECES"):
        read_config(saved)
    monkeypatch.setenv("SUBGRAFT_MAX_PIECES", "100000")
    assert read_config(saved)["model_type"] == "marian"
    monkeypatch.setenv("SUBGRAFT_MAX_PIECES", "many")
    with pytest.raises(UserError, match="expected a positive whole number"):
        read_config(saved)
