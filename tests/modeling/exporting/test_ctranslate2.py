"""Models exported to CTranslate2 say what they say in transformers, token by token."""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import torch

from finished import (
    Build,
    as_published_bundle,
    bart_bundle,
    bert2bert_bundle,
    gpt2_bundle,
    llama_bundle,
    m2m100_bundle,
    mbart_bundle,
    separate_bundle,
    split_mbart_bundle,
    t5_bundle,
    t5_untied_bundle,
    tell_languages,
)
from published import CHECKPOINTS
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings
from subgraft.evaluation.metrics.scores import corpus_scores
from subgraft.interfaces.api.exports import QUANTIZATIONS as OFFERED
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import NOTEWORTHY, QUANTIZATIONS, TOLERANCE, export_ctranslate2
from subgraft.modeling.families import family_of
from subgraft.modeling.inference.ctranslate2_directory import SETTINGS, ExportedModel, is_exported, token_names
from subgraft.modeling.inference.ctranslate2_search import ExportedContinuer, ExportedTranslator
from subgraft.pipeline.compute.continuation import continuer
from subgraft.pipeline.compute.outputs import translator
from toys import english, german, german_tokenizer, output_bias

LANGUAGES = Languages(source="en", target="de")
SENTENCES = 100


TRANSLATORS = [
    separate_bundle,
    as_published_bundle,
    mbart_bundle,
    split_mbart_bundle,
    m2m100_bundle,
    t5_bundle,
    t5_untied_bundle,
    bart_bundle,
]


def _exported(bundle: Bundle, folder: Path, quantization: str = "float32") -> ExportedModel:
    bundle.save(folder / "model")
    (folder / "exported").mkdir()
    check = export_ctranslate2(folder / "model", folder / "exported", quantization, LANGUAGES)
    assert check.largest < TOLERANCE or quantization != "float32"
    return ExportedModel.open(folder / "exported")


@pytest.mark.parametrize("build", TRANSLATORS)
def test_greedy_translations_are_those_of_transformers(build: Build, tmp_path: Path) -> None:
    bundle, sources = build(), [" ".join(line.split()[:2]) for line in english(SENTENCES, 5)]
    expected = translator(bundle, LANGUAGES, MeasurementSettings(beam=1)).with_probabilities(sources)
    translate = ExportedTranslator(_exported(build(), tmp_path), LANGUAGES, beam=1, max_length_ratio=2.5)
    begins = bundle.sequence_format(LANGUAGES).target_begins
    ends = {bundle.decoder.special["eos"], bundle.decoder.special["pad"]}
    result = [
        tuple(takewhile(lambda token: token not in ends, tokens[begins:])) for tokens in translate.tokens(sources)
    ]
    assert len(set(result)) > 5, "the outputs differ from sentence to sentence"
    equal = sum(tokens == output.tokens for tokens, output in zip(result, expected, strict=True))
    assert equal >= 0.99 * SENTENCES
    scores = [
        corpus_scores(texts, german(SENTENCES, 5), "de")["BLEU"].value
        for texts in ([output.text for output in expected], translate(sources))
    ]
    assert scores[0] == pytest.approx(scores[1], abs=0.1)


@pytest.mark.parametrize("build", [gpt2_bundle, llama_bundle])
def test_greedy_continuations_are_those_of_transformers(build: Build, tmp_path: Path) -> None:
    prompts = [" ".join(line.split()[:1]) for line in german(SENTENCES, 5)]
    expected = continuer(build(), LANGUAGES, MeasurementSettings(beam=1))(prompts)
    go_on = ExportedContinuer(_exported(build(), tmp_path), None, beam=1, max_length_ratio=2.5)
    result = go_on(prompts)
    assert len(set(result)) > 5, "the outputs differ from prompt to prompt"
    assert sum(a == b for a, b in zip(result, expected, strict=True)) >= 0.99 * SENTENCES


@pytest.mark.parametrize(
    "name",
    [
        "Mistral-7B-v0.1",
        "Qwen3-0.6B",
        "gemma-2b",
        "gemma-3-1b-pt",
        "opt-125m",
        "opt-350m",
        "pythia-70m",
        "bloom-560m",
        "pegasus-xsum",
    ],
)
def test_published_models_compute_what_transformers_does(name: str, tmp_path: Path) -> None:
    CHECKPOINTS[name].publish(tmp_path / "model")
    (tmp_path / "exported").mkdir()
    assert export_ctranslate2(tmp_path / "model", tmp_path / "exported", "float32", None).largest < TOLERANCE


@pytest.mark.parametrize("name", ["Phi-3-mini-4k-instruct"])
def test_models_without_a_loader_that_works_are_refused(name: str, tmp_path: Path) -> None:
    CHECKPOINTS[name].publish(tmp_path / "model")
    (tmp_path / "exported").mkdir()
    with pytest.raises(UserError, match="cannot be exported to CTranslate2"):
        export_ctranslate2(tmp_path / "model", tmp_path / "exported", "float32", None)


@pytest.mark.parametrize("quantization", ["int8", "float16"])
def test_quantised_models_are_smaller_and_close(quantization: str, tmp_path: Path) -> None:
    whole = _exported(separate_bundle(), tmp_path)
    (tmp_path / "small").mkdir()
    check = export_ctranslate2(tmp_path / "model", tmp_path / "small", quantization)
    assert 0 < check.mean < NOTEWORTHY
    sizes = [(folder / "model.bin").stat().st_size for folder in (whole.directory, tmp_path / "small")]
    assert sizes[1] < 0.8 * sizes[0]


def test_an_export_that_is_far_from_the_model_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = separate_bundle()
    with torch.no_grad():
        bundle.model.get_output_embeddings().weight *= 8  # and with it the effect of all rounding before
    bundle.save(tmp_path / "model")
    for quantization, warned in (("int8", True), ("float32", False)):
        out = str(tmp_path / quantization)
        command = ["export", str(tmp_path / "model"), "--to", "ctranslate2", "--quantization", quantization]
        assert main([*command, "--out", out]) == 0
        said = capsys.readouterr().out
        assert "log-probabilities differ" in said and ("[warning]" in said) == warned


def test_what_must_not_be_written_is_not(tmp_path: Path) -> None:
    """Published Marians say by bad_words_ids that padding is never written."""
    bundle = separate_bundle()
    padding = bundle.decoder.special["pad"]
    output_bias(bundle.model)[0, padding] = 1e3
    bundle.model.generation_config.bad_words_ids = [[padding]]
    translate = ExportedTranslator(_exported(bundle, tmp_path), None, beam=1, max_length_ratio=2.5)
    assert all(padding not in tokens for tokens in translate.tokens(["thank"]))


def test_every_row_has_a_name_of_its_own() -> None:
    tokenizer = german_tokenizer()
    result = token_names(tokenizer, len(tokenizer) + 3)
    assert result[: len(tokenizer)] == tokenizer.pieces
    assert len(set(result)) == len(tokenizer) + 3


def test_an_export_that_computes_something_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    separate_bundle().save(tmp_path / "model")
    monkeypatch.setattr("subgraft.modeling.exporting.ctranslate2.TOLERANCE", 0.0)
    assert main(["export", str(tmp_path / "model"), "--to", "ctranslate2", "--out", str(tmp_path / "out")]) == 2
    assert not (tmp_path / "out").exists()


def test_what_ctranslate2_does_not_have_is_refused(tmp_path: Path) -> None:
    bert2bert_bundle().save(tmp_path / "model")
    with pytest.raises(UserError, match="encoder-decoder model cannot be exported to CTranslate2"):
        export_ctranslate2(tmp_path / "model", tmp_path)


def _scaled(place: Path, **scaling: Any) -> Path:
    """A Llama whose config.json says how its positions are scaled."""
    llama_bundle().save(place)
    config = json.loads((place / "config.json").read_text())
    config.pop("rope_scaling", None)
    (place / "config.json").write_text(json.dumps({**config, "rope_parameters": {"rope_theta": 1e4, **scaling}}))
    return place


@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 4.0},
        *(
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
            | {"original_max_position_embeddings": length}
            for length in (8, 64, 8192)
        ),
    ],
)
def test_positions_are_scaled_as_the_models_are(scaling: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert export_ctranslate2(_scaled(tmp_path / "model", **scaling), tmp_path / "out").largest < 1e-4


@pytest.mark.parametrize("kind", ["dynamic", "yarn"])
def test_positions_that_ctranslate2_does_not_scale_are_left_to_transformers(kind: str, tmp_path: Path) -> None:
    model = _scaled(tmp_path / "model", rope_type=kind, factor=4.0, original_max_position_embeddings=64)
    config = json.loads((model / "config.json").read_text())
    assert not family_of(config).runs_in_ctranslate2(config)
    assert not family_of(config).runs_in_ctranslate2(
        {**config, "rope_parameters": None, "rope_scaling": {"type": kind}}
    )
    with pytest.raises(UserError, match="scaled otherwise than default, linear, llama3"):
        export_ctranslate2(model, tmp_path)


def test_languages_have_to_be_said_where_the_model_has_codes(tmp_path: Path) -> None:
    mbart_bundle().save(tmp_path / "model")
    with pytest.raises(UserError, match=r"^languages: "):
        export_ctranslate2(tmp_path / "model", tmp_path)


def test_languages_are_those_of_the_export_or_of_the_models_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle, backwards = mbart_bundle(), Languages(source="de", target="en")
    exported = _exported(mbart_bundle(), tmp_path)
    assert exported.sequence_format() == bundle.sequence_format(LANGUAGES) != bundle.sequence_format(backwards)
    (tmp_path / "text").write_text("thank you\nthe garden\n", encoding="utf-8")
    written = []
    for said in ([], ["--languages", "en-de"], ["--languages", "de-en"]):
        command = ["generate", "--model", str(exported.directory), "--input", str(tmp_path / "text"), *said]
        assert main(command) == 0
        written.append(capsys.readouterr().out)
    assert written[0] == written[1] != written[2]
    tell_languages(tmp_path / "model", "de", "en")
    (tmp_path / "told").mkdir()
    export_ctranslate2(tmp_path / "model", tmp_path / "told")
    assert ExportedModel.open(tmp_path / "told").settings.languages == backwards


def test_the_command_and_generate_on_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle, text = separate_bundle(), tmp_path / "text"
    bundle.save(tmp_path / "model")
    text.write_text("thank you\nthe garden\n", encoding="utf-8")
    out = tmp_path / "exported"
    assert main(["export", str(tmp_path / "model"), "--to", "ctranslate2", "--out", str(out)]) == 0
    assert is_exported(out) and "log-probabilities" in capsys.readouterr().out
    written = []
    for model in (tmp_path / "model", out):
        assert main(["generate", "--model", str(model), "--input", str(text), "--beam", "1"]) == 0
        written.append(capsys.readouterr().out)
    assert written[0] == written[1]
    assert main(["generate", "--model", str(out), "--input", str(text), "--max-tokens", "3"]) == 2


def test_damaged_settings_are_reported(tmp_path: Path) -> None:
    exported = _exported(separate_bundle(), tmp_path).directory
    for damage in ("{", json.dumps({"engine": "another", "model": {}}), "[]"):
        (exported / SETTINGS).write_text(damage, encoding="utf-8")
        with pytest.raises(UserError, match="no exported model"):
            ExportedModel.open(exported)


def test_the_command_offers_what_there_is() -> None:
    assert OFFERED == QUANTIZATIONS
