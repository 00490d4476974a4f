"""Published generation settings that transformers refuses: left out and reported, all others kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig

from published import CHECKPOINTS, english
from subgraft.base.errors import UserError
from subgraft.interfaces.cli import main
from subgraft.modeling.generation_settings import loadable
from subgraft.modeling.load import load_model

FOR_SAMPLING = "used for sampling only, and do_sample is not set"
FOR_BEAMS = "used for beam search only, and num_beams is not above 1"


def _published(name: str, directory: Path, **settings: Any) -> Path:
    CHECKPOINTS[name].publish(directory)
    path = directory / "generation_config.json"
    inputs = json.loads(path.read_text(encoding="utf-8")) | settings
    path.write_text(json.dumps({k: v for k, v in inputs.items() if v is not None}), encoding="utf-8")
    return directory


def _settings(directory: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((directory / "generation_config.json").read_text(encoding="utf-8"))
    GenerationConfig(**result).validate(strict=True)
    return result


def test_a_llama_2_is_transferred_and_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = {"temperature": 0.9, "top_p": 0.6, "repetition_penalty": 1.2, "pad_token_id": -1}  # no padding
    model = _published("Llama-2-7b", tmp_path / "model", **asked)
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in english(200)), encoding="utf-8")
    learn = ["vocab", "learn", "--text", str(tmp_path / "text"), "--size", "500", "--like", str(model)]
    assert main([*learn, "--out", str(tmp_path / "vocabulary")]) == 0
    capsys.readouterr()
    transfer = ["transfer", "--model", str(model), "--vocab", str(tmp_path / "vocabulary")]
    assert main([*transfer, "--out", str(tmp_path / "transferred")]) == 0
    message = f"generation_config.json: generation settings left out: temperature 0.9, top_p 0.6 ({FOR_SAMPLING})\n"
    assert message in capsys.readouterr().err
    assert main(["export", str(model), "--to", "transformers", "--out", str(tmp_path / "exported")]) == 0
    assert message in capsys.readouterr().err
    for name in ("transferred", "exported"):
        settings = _settings(tmp_path / name)
        assert settings["repetition_penalty"] == 1.2 and not {"temperature", "top_p"} & settings.keys()
        AutoModelForCausalLM.from_pretrained(tmp_path / name).save_pretrained(tmp_path / f"{name}-again")


def test_settings_of_beam_search_without_beams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = _published("bart-base", tmp_path / "model", length_penalty=2.0, early_stopping=True, num_beams=None)
    assert main(["export", str(model), "--to", "transformers", "--out", str(tmp_path / "exported")]) == 0
    assert f"early_stopping True, length_penalty 2.0 ({FOR_BEAMS})" in capsys.readouterr().err
    settings = _settings(tmp_path / "exported")
    assert settings["no_repeat_ngram_size"] == 3 and not {"length_penalty", "early_stopping"} & settings.keys()
    AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "exported")
    valid = _published("bart-base", tmp_path / "valid", length_penalty=2.0, early_stopping=True, num_beams=4)
    assert main(["export", str(valid), "--to", "transformers", "--out", str(tmp_path / "whole")]) == 0
    assert "left out" not in capsys.readouterr().err
    assert _settings(tmp_path / "whole").items() >= {"length_penalty": 2.0, "num_beams": 4}.items()


@pytest.mark.parametrize(
    ("invalid", "settings"),
    [
        ("num_return_sequences", {"num_return_sequences": 3}),
        ("num_return_sequences", {"num_return_sequences": "3"}),
        ("early_stopping", {"early_stopping": "sometimes"}),
        ("max_new_tokens", {"max_new_tokens": 0}),
        ("stopping_criteria", {"stopping_criteria": [1], "no_such_setting": 1}),
        ("watermarking_config", {"watermarking_config": {"seeding_scheme": "none"}}),
        ("forced_bos_token_id", {"forced_bos_token_id": 0, "suppress_tokens": [0]}),
        ("cache_implementation", {"cache_implementation": "none", "temperature": 0.9}),
    ],
)
def test_what_cannot_be_loaded_is_left_out(
    invalid: str, settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    selected = {name: value for name, value in settings.items() if name != invalid}
    assert loadable({**settings, "no_repeat_ngram_size": 3}, "where") == {**selected, "no_repeat_ngram_size": 3}
    message = capsys.readouterr().err
    assert message.startswith(f"where: generation settings left out: {invalid} ") and message.count("\n") == 1
    GenerationConfig(**selected)


def test_older_models_say_it_in_their_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CHECKPOINTS["gpt2"].publish(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config |= {"num_return_sequences": 3, "repetition_penalty": 1.3}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    assert load_model(tmp_path).generation_config.repetition_penalty == 1.3
    assert "config.json: generation settings left out: num_return_sequences 3 (" in capsys.readouterr().err


def test_settings_of_which_none_can_be_blamed_are_refused() -> None:
    with pytest.raises(UserError, match="does not accept these generation settings") as caught:
        loadable({"validate": 1, "temperature": 0.9}, "the file")
    assert caught.value.where == "the file"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("repetition_penalty", 0),
        ("repetition_penalty", "2"),
        ("length_penalty", 1e308),
        ("eos_token_id", [[1]]),
        ("eos_token_id", []),
        ("pad_token_id", 1.5),
        ("guidance_scale", 5),
        ("no_repeat_ngram_size", -1),
        ("min_length", 10**12),
        ("suppress_tokens", [None]),
        ("bad_words_ids", [[]]),
        ("bad_words_ids", [[-1]]),
        ("sequence_bias", [[[1]]]),
        ("sequence_bias", [[[-1], 0.5]]),
        ("exponential_decay_length_penalty", [1]),
        ("renormalize_logits", "yes"),
    ],
)
def test_values_that_break_a_search_are_refused(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"here: {name} is .*, where .* is expected"):
        loadable({name: value}, "here")
    loadable({name: None}, "here")


def test_empty_lists_that_would_break_a_search_are_left_out() -> None:
    assert loadable({"bad_words_ids": [], "sequence_bias": [], "num_beams": 2}, "here") == {"num_beams": 2}
