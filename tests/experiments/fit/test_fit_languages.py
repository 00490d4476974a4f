"""Fits for a language that the model lacks, and of several directions at once: what is asked, written and refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_processes import ended
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.tokenizers import checkpoint_directions
from subgraft.subwords.vocabulary.learn import learn
from toys import build_mbart, english, german, marian
from toys import english_tokenizer as tokenizer_of_marian

SHAPE = {"d_model": 16, "attention_heads": 2, "ffn_dim": 16, "encoder_layers": 1, "decoder_layers": 1}
GERMAN = ["--pairs", "text.de", "text.en", "--languages", "de-en"]
UKRAINIAN = ["--pairs", "text.en", "text.ukr", "--languages", "en-ukr"]
_LETTERS = {ord(latin): 0x430 + at for at, latin in enumerate("abcdefghijklmnopqrstuvwxyz")}


def fit(*options: str) -> list[str]:
    return ["fit", "model", *options, "--out", "fitted", "--quick"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with an mBART of German and English, and parallel files of them and of a third language."""
    codes = ("de_DE", "en_XX")
    tokenizer = learn(english() + german(), kind="unigram", size=380, byte_fallback=True, mask=True, languages=codes)
    Bundle(build_mbart(tokenizer, seed=1, **SHAPE, max_positions=128), tokenizer, tokenizer).save(tmp_path / "model")
    lines = english(400, 5)
    texts = {"en": lines, "de": german(400, 5), "ukr": [line.lower().translate(_LETTERS) for line in lines]}
    for language, text in texts.items():
        (tmp_path / f"text.{language}").write_text("".join(f"{line}\n" for line in text), encoding="utf-8")
    return tmp_path


@pytest.fixture
def here(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """For commands in this process."""
    monkeypatch.chdir(files)
    monkeypatch.setenv("SUBGRAFT_HOME", str(files / "home"))
    return files


def test_a_language_that_the_model_lacks_gets_a_code(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*fit(*UKRAINIAN), "--plan"]) == 0, capsys.readouterr().err
    assert "the model has no code for 'ukr': it gets one" in capsys.readouterr().out
    experiment = load(here / "fitted" / "fit.yaml", Experiment)
    assert experiment.upstream.new_languages == {"ukr": "mean"} and experiment.sides == ("encoder", "decoder")
    assert not experiment.directions and experiment.languages.name == "en-ukr"
    reading = ["--pairs", "text.ukr", "text.en", "--languages", "ukr-en"]
    assert main([*fit(*reading), "--out", "other", "--plan"]) == 0, capsys.readouterr().err
    assert load(here / "other" / "fit.yaml", Experiment).sides == ("encoder", "decoder"), "it reads another language"


def test_a_plan_of_several_directions(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*fit(*GERMAN, *UKRAINIAN), "--plan"]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert "400 pairs, de to en" in said and "400 pairs, en to ukr" in said
    experiment = load(here / "fitted" / "fit.yaml", Experiment)
    assert [each.name for each in experiment.directions] == ["de-en", "en-ukr"]
    assert all(each.train for each in experiment.directions) and [*experiment.corpora] == ["de-en", "en-ukr"]
    text = here / "fitted" / "text"
    held_out = {
        line
        for name, language in (("de-en", "en"), ("en-ukr", "en"))
        for split in ("dev", "test")
        for line in (text / name / f"{split}.{language}").read_text().splitlines()
    }
    for name in ("de-en", "en-ukr"):
        train = (text / name / "train.en").read_text().splitlines()
        assert len(train) >= 200 and held_out.isdisjoint(train), "a sentence is held out of every direction"
    assert main([*fit(*UKRAINIAN, *GERMAN), "--plan"]) == 2, "the first direction is what the report is about"
    assert "another pairs and languages" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([*GERMAN, *UKRAINIAN[:3]], "--languages: expected 2 pairs of languages, found 1"),
        ([*GERMAN, "--languages", "en-ukr"], "--languages: expected 1 pair of languages, found 2"),
        ([*GERMAN, *GERMAN], "--languages: de-en is named twice"),
        ([*GERMAN, *UKRAINIAN[:4], "en-en"], "--languages: en-en is one language"),
        ([*GERMAN, *UKRAINIAN, "--text", "text.en"], "--text: more text is of one target language"),
        ([*GERMAN, "--pairs", "text.en", "absent", "--languages", "en-ukr"], "absent"),
        ([*GERMAN, "--pairs", "text.en", "short", "--languages", "en-ukr"], "text.en has 400 lines and short 1"),
    ],
)
def test_a_mistake_in_directions_gets_one_message(
    here: Path, capsys: pytest.CaptureFixture[str], options: list[str], complaint: str
) -> None:
    (here / "short").write_text("один\n", encoding="utf-8")
    before = sorted(here.rglob("*"))
    assert main(fit(*options)) == 2
    message = capsys.readouterr().err
    assert complaint in message, message
    assert sorted(here.rglob("*")) == before


def test_a_model_that_marks_no_languages_writes_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Bundle(marian(), tokenizer_of_marian(), tokenizer_of_marian(90)).save(here / "marian")
    both = ["fit", "marian", *GERMAN, "--pairs", "text.de", "text.ukr", "--languages", "de-ukr", "--out", "fitted"]
    assert main([*both, "--plan"]) == 2
    assert "has no language codes, so it cannot know whether to write en or ukr" in capsys.readouterr().err
    assert not (here / "fitted").exists()


@pytest.mark.ray
@pytest.mark.slow
def test_one_model_of_all_directions_is_advised(files: Path) -> None:
    code, said = ended(files, fit(*GERMAN, *UKRAINIAN))
    assert code == 0, said
    assert "Means of 2 directions with own and old: BLEU" in said
    model = files / "fitted" / "model"
    if model.is_dir():
        assert "--languages en-ukr" in said
    else:  # on this processor so small a model has learnt nothing
        assert "Take neither model" in said
        model = next(config.parent for config in (files / "home" / "store" / "finetune").glob("*/config.json"))
    assert [pair.name for pair in checkpoint_directions(model)] == ["de-en", "en-ukr"]
    assert "ukr_XX" in Bundle.load(model).decoder.languages
    for name, language in (("de-en", "de"), ("en-ukr", "en")):
        asked = ["generate", "--model", str(model), "--input", f"fitted/text/{name}/dev.{language}"]
        code, translated = ended(files, [*asked, "--languages", name])
        assert code == 0 and len(translated.splitlines()) >= 50
