"""`subgraft evaluate` says which language a model's outputs are in, where its languages are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import subgraft
from subgraft.evaluation.metrics.output_language import LanguageIdentifier
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from toys import SHAPE, build_mbart, english, german, multilingual_tokenizer, output_bias


def test_shares_are_those_of_the_identifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = multilingual_tokenizer()
    built = build_mbart(tokenizer, seed=3, **SHAPE | {"max_positions": 80})
    letter = next(i for i, entry in enumerate(tokenizer.entries) if entry and entry.surface == "a")
    output_bias(built)[..., letter] = 4.0  # so that it writes something
    Bundle(built, tokenizer, tokenizer).save(tmp_path / "model")
    sources, references = english(40), german(40)
    (tmp_path / "in").write_text("\n".join(sources) + "\n")
    (tmp_path / "wanted").write_text("\n".join(references) + "\n")
    files = ["--sources", str(tmp_path / "in"), "--references", str(tmp_path / "wanted"), "--beam", "1"]
    command = ["evaluate", "--model", str(tmp_path / "model"), *files, "--languages", "en-de"]
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["output_language"]
    outputs = subgraft.translate(tmp_path / "model", sources, languages=("en", "de"), beam=1)
    identify = LanguageIdentifier({"en": sources, "de": references})
    assert printed == identify.shares(outputs) and sum(printed.values()) == pytest.approx(1)
    assert identify.shares(references) == {"de": 1.0} and identify.shares(sources) == {"en": 1.0}
    assert main(command) == 0
    assert "outputs in\t" in capsys.readouterr().out


def test_without_a_model_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wanted").write_text("\n".join(german(5)) + "\n")
    files = ["--hypotheses", str(tmp_path / "wanted"), "--references", str(tmp_path / "wanted")]
    assert main(["evaluate", *files, "--language", "de", "--json"]) == 0
    assert "output_language" not in json.loads(capsys.readouterr().out)
