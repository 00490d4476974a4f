"""`subgraft evaluate` says which language a model's outputs are in, where its languages are named."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest

import subgraft
from subgraft.evaluation.metrics.untranslated import LanguageIdentifier
from subgraft.interfaces.api.documents import documents_of, translate_documents
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from toys import SHAPE, build_mbart, english, german, multilingual_tokenizer, output_bias


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """The evaluation of a model that prefers a letter, so that it writes something."""
    tokenizer = multilingual_tokenizer()
    built = build_mbart(tokenizer, seed=3, **SHAPE | {"max_positions": 80})
    letter = next(i for i, entry in enumerate(tokenizer.entries) if entry and entry.surface == "a")
    output_bias(built)[..., letter] = 4.0
    Bundle(built, tokenizer, tokenizer).save(tmp_path / "model")
    files = ["--sources", str(tmp_path / "in"), "--references", str(tmp_path / "wanted"), "--beam", "1"]
    return ["evaluate", "--model", str(tmp_path / "model"), *files, "--languages", "en-de"]


def test_shares_are_those_of_the_identifier(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources, references = english(40), german(40)
    (tmp_path / "in").write_text("\n".join(sources) + "\n")
    (tmp_path / "wanted").write_text("\n".join(references) + "\n")
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["output_language"]
    outputs = subgraft.translate(tmp_path / "model", sources, languages=("en", "de"), beam=1)
    identify = LanguageIdentifier({"en": sources, "de": references})
    assert printed == identify.shares(outputs) and sum(printed.values()) == pytest.approx(1)
    assert identify.shares(references) == {"de": 1.0} and identify.shares(sources) == {"en": 1.0}
    assert main(command) == 0
    assert "outputs in\t" in capsys.readouterr().out


def test_pipes_are_scored_like_files(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As of `--sources <(command)`."""
    content = {"in": english(5), "wanted": german(5)}
    for name, lines in content.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    assert main(command) == 0
    scores = capsys.readouterr().out
    with ThreadPoolExecutor(2) as pool:
        for name, lines in content.items():
            (tmp_path / name).unlink()
            os.mkfifo(tmp_path / name)
            pool.submit((tmp_path / name).write_text, "\n".join(lines) + "\n")
        assert main(command) == 0
    assert capsys.readouterr().out == scores


def test_sentences_of_documents_are_identified_too(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sources, references = ([*lines[:3], "", *lines[3:]] for lines in (english(5), german(5)))
    (tmp_path / "in").write_text("\n".join(sources) + "\n")
    (tmp_path / "wanted").write_text("\n".join(references) + "\n")
    assert main([*command, "--documents", "40", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["output_language"]
    outputs = translate_documents(
        tmp_path / "model", documents_of(sources), languages=("en", "de"), block_tokens=40, beam=1
    )
    identify = LanguageIdentifier({"en": english(5), "de": german(5)})
    assert printed == identify.shares(list(chain.from_iterable(outputs)))
    assert main([*command, "--documents", "40"]) == 0
    assert "outputs in\t" in capsys.readouterr().out


def test_without_a_model_nothing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "wanted").write_text("\n".join(german(5)) + "\n")
    files = ["--hypotheses", str(tmp_path / "wanted"), "--references", str(tmp_path / "wanted")]
    assert main(["evaluate", *files, "--language", "de", "--json"]) == 0
    assert "output_language" not in json.loads(capsys.readouterr().out)
