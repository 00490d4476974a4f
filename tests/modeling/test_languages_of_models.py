"""Languages that contradict a model are refused at every door, and a saved model names its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import subgraft
from finished import mbart_bundle, separate_bundle
from subgraft.base.errors import ArgumentError
from subgraft.config.corpora import Languages
from subgraft.interfaces.cli import main
from subgraft.modeling.tokenizers import checkpoint_directions, languages_of
from toys import english

EN_DE = Languages(source="en", target="de")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model for English to German, without language codes."""
    subgraft.Model(separate_bundle(), EN_DE).save(tmp_path / "model")
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in english(3)))
    return tmp_path / "model"


@pytest.mark.parametrize("languages", ["de-en", "xx-yy", "fr-ja"])
def test_other_languages_are_refused_by_all_commands(
    languages: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = str(model.parent / "text"), str(model.parent / "out")
    for command in (
        ["generate", "--model", str(model), "--input", text],
        ["generate", "--model", str(model), "--input", text, "--documents"],
        ["evaluate", "--model", str(model), "--sources", text, "--references", text],
        ["export", str(model), "--to", "transformers", "--out", out],
        ["export", str(model), "--to", "ctranslate2", "--out", out],
        ["push", str(model), "owner/name", "--dry-run", "--out", out],
    ):
        assert main([*command, "--languages", languages]) == 2
        message = capsys.readouterr().err
        assert f"--languages: the model is for en-de, not for {languages}" in message, command
        assert "leave --languages out" in message and not Path(out).exists()


def test_a_function_names_its_argument(model: Path) -> None:
    with pytest.raises(ArgumentError, match=r"^languages: the model is for en-de, not for de-en\n.*`languages`"):
        subgraft.translate(subgraft.load(model), ["a"], languages=("de", "en"))


def test_codes_regions_and_several_directions_are_accepted(model: Path) -> None:
    bundle = mbart_bundle()
    de_en, fr_en = (Languages(source=source, target="en") for source in ("de", "fr"))
    for known, tokenizers, requested in (
        ((EN_DE,), separate_bundle().tokenizers, Languages(source="en_XX", target="deu_Latn")),
        ((de_en, fr_en), separate_bundle().tokenizers, fr_en),
        ((EN_DE,), bundle.tokenizers, de_en),
        ((), separate_bundle().tokenizers, de_en),
        ((Languages(source="und", target="und"),), separate_bundle().tokenizers, de_en),
    ):
        assert languages_of(known, tokenizers.values(), requested) == requested
    assert main(["generate", "--model", str(model), "--input", str(model.parent / "text"), "--languages", "en-de"]) == 0


def test_a_saved_model_names_its_languages(model: Path, tmp_path: Path) -> None:
    further = (Languages(source="fr", target="de"),)
    subgraft.Model(separate_bundle(), EN_DE, further_directions=further).save(tmp_path / "several")
    assert checkpoint_directions(tmp_path / "several") == (EN_DE, *further)
    assert subgraft.load(tmp_path / "several").further_directions == further
    assert subgraft.load(model).languages == EN_DE
    assert subgraft.load(model).further_directions == ()
    (model / "languages.json").write_text(json.dumps({"directions": 3}))
    assert checkpoint_directions(model) == ()
