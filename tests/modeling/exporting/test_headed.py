"""Published models with classifying heads: loaded, given vocabularies, exported, and read by transformers alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import subgraft
from checkpoint_table import PAGE
from headed_table import measured, outputs, read_rows, written_page
from published import english, german
from published_heads import HEADED, Headed
from subgraft.base.errors import UserError
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.interfaces.api.predict import prediction_model
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import count_parameters, family_of
from subgraft.modeling.families.heads import kind_of_class
from subgraft.modeling.heads import AUTO_CLASSES, head_of, with_head
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.extend import extend
from subgraft.training.understanding.predictor import Predictor

QUESTION, PASSAGE = english(2)


def weights(model: torch.nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def changed(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    assert before.keys() == after.keys()
    return {name for name, tensor in before.items() if not torch.equal(tensor, after[name])}


def published(name: str, tmp_path: Path) -> tuple[Headed, Path]:
    directory = tmp_path / "model"
    HEADED[name].publish(directory)
    return HEADED[name], directory


@pytest.mark.parametrize("name", HEADED)
def test_a_published_model_is_loaded_with_its_head(name: str, tmp_path: Path) -> None:
    checkpoint, directory = published(name, tmp_path)
    theirs = getattr(transformers, checkpoint.model_class).from_pretrained(directory).eval()
    bundle = Bundle.load(directory)
    assert type(bundle.model) is type(theirs) and changed(weights(theirs), weights(bundle.model)) == set()
    head = head_of(bundle.model)
    assert head is not None and head.kind == kind_of_class(checkpoint.model_class)
    assert head.labels == checkpoint.labels or not checkpoint.labels
    expected = sum(parameter.numel() for parameter in theirs.parameters())
    assert count_parameters(bundle.model.config.to_dict()).total == expected
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    layout, (first, second) = bundle.input_layout(), bundle.encoder.encode_batch([QUESTION, PASSAGE])
    assert layout.single(first).ids == tokenizer(QUESTION)["input_ids"]
    if "encoder" in bundle.tokenizers:
        encoded = tokenizer(QUESTION, PASSAGE)
        assert layout.pair(first, second).ids == encoded["input_ids"]
        assert not layout.segments or layout.pair(first, second).types == encoded["token_type_ids"]
    bundle.save(tmp_path / "saved")
    assert changed(weights(theirs), weights(Bundle.load(tmp_path / "saved").model)) == set()


@pytest.mark.parametrize("name", HEADED)
def test_a_transfer_replaces_the_input_embeddings_alone(name: str, tmp_path: Path) -> None:
    _, directory = published(name, tmp_path)
    bundle = Bundle.load(directory)
    before, sides = weights(bundle.model), bundle.tokenizers
    ids = bundle.input_layout().single(bundle.encoder.encode(PASSAGE)).ids
    expected = outputs(bundle.model, ids)
    rows = family_of(bundle.model).input_table(bundle.model, "decoder").weight
    tables = {key for key, tensor in before.items() if torch.equal(tensor, rows)}
    assert 1 <= len(tables) <= 3

    transfer(directory, sides, Method("mean"), tmp_path / "same")
    same = Bundle.load(tmp_path / "same").model
    torch.testing.assert_close(outputs(same, ids), expected, rtol=1e-4, atol=1e-5)
    assert changed(before, weights(same)) <= tables  # rows without a token are dropped

    grown = extend(bundle.decoder, german(300), 20)
    transfer(directory, dict.fromkeys(sides, grown), Method("mean"), tmp_path / "grown")
    larger = Bundle.load(tmp_path / "grown")
    assert changed(before, weights(larger.model)) == tables
    assert {len(weights(larger.model)[key]) for key in tables} == {len(grown)}
    torch.testing.assert_close(outputs(larger.model, ids), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", HEADED)
def test_an_export_is_read_by_transformers_without_code(name: str, tmp_path: Path) -> None:
    checkpoint, directory = published(name, tmp_path)
    bundle, out = Bundle.load(directory), tmp_path / "export"
    assert main(["export", str(directory), "--to", "transformers", "--out", str(out)]) == 0
    kind = kind_of_class(checkpoint.model_class)
    assert kind is not None
    model = getattr(transformers, AUTO_CLASSES[kind]).from_pretrained(out)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    assert changed(weights(bundle.model), weights(model)) == set()
    first, second = bundle.encoder.encode_batch([QUESTION, PASSAGE])
    expected, layout = bundle.input_layout().pair(first, second), bundle.input_layout()
    encoded = tokenizer(QUESTION, PASSAGE)
    assert encoded["input_ids"] == expected.ids
    of_class = transformers.AutoTokenizer.from_pretrained(directory)(QUESTION, PASSAGE)
    assert ("token_type_ids" in encoded) == (layout.segments or "token_type_ids" in of_class)
    assert not layout.segments or encoded["token_type_ids"] == expected.types
    both = tokenizer([QUESTION, PASSAGE], padding=True, return_tensors="pt")
    if kind == "sequence":
        single = [outputs(bundle.model, layout.single(ids).ids) for ids in (first, second)]
        torch.testing.assert_close(model.eval()(**both).logits.detach(), torch.stack(single), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("roberta-large-mnli", "text-classification"),
        ("distilbert-base-uncased-finetuned-sst-2-english", "text-classification"),
        ("gpt2-imdb", "text-classification"),
        ("bart-large-mnli", "text-classification"),
        ("bert-base-NER", "token-classification"),
    ],
)
def test_a_grafted_model_answers_in_a_pipeline(name: str, task: Any, tmp_path: Path) -> None:
    checkpoint, directory = published(name, tmp_path)
    model = getattr(transformers, checkpoint.model_class).from_pretrained(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    before = weights(model)
    grafted = subgraft.graft(model, tokenizer, german(400))
    assert changed(before, weights(model)) == set()
    assert all(key.endswith(("embeddings.weight", "shared.weight", "embed_tokens.weight", "wte.weight"))
               for key in changed(before, weights(grafted.model)))  # fmt: skip
    assert len(changed(before, weights(grafted.model))) > 0
    pipeline: Any = transformers.pipeline
    answers = pipeline(task, model=grafted.model, tokenizer=grafted.tokenizer)(list(german(3)))
    assert len(answers) == 3
    labels = {each["entity" if task.startswith("token") else "label"] for answer in answers
              for each in (answer if isinstance(answer, list) else [answer])}  # fmt: skip
    assert labels <= set(checkpoint.labels)


def test_the_page_is_of_all_of_them_and_of_nothing_that_went_wrong() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = read_rows(text)
    assert rows.keys() == HEADED.keys() and written_page(rows, text) == text
    for name, row in rows.items():
        assert row["class"] == HEADED[name].model_class and row["graft"] == "yes"
        assert all(done == asked for done, asked in (row[each].split(" of ") for each in ("ids", "outputs", "export")))


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADED)
def test_the_page_says_what_is_so(name: str) -> None:
    assert measured(name) == read_rows(PAGE.read_text(encoding="utf-8"))[name]


def test_what_needs_a_head_that_predicts_tokens_is_refused(tmp_path: Path, capsys: Any) -> None:
    _, directory = published("gpt2-imdb", tmp_path)
    (tmp_path / "text.txt").write_text("Ein Satz.\n")
    assert main(["generate", "--model", str(directory), "--input", str(tmp_path / "text.txt")]) == 2
    head = "a head that classifies texts, 2 labels (neg, pos)"
    assert f"this gpt2 model has {head}, and writes no text" in capsys.readouterr().err
    assert main(["export", str(directory), "--to", "ctranslate2", "--out", str(tmp_path / "out")]) == 2
    assert "CTranslate2 has no encoder for a gpt2 model with a head" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert head in repr(subgraft.load(directory))


ENCODERS = [name for name in HEADED if name.startswith(("bert", "distilbert", "roberta", "xlm", "stsb"))]


@pytest.mark.parametrize("name", ENCODERS)
def test_ctranslate2_runs_the_encoder_of_a_model_with_a_head(name: str, tmp_path: Path) -> None:
    _, directory = published(name, tmp_path)
    exported = subgraft.export(directory, to="ctranslate2", out=tmp_path / "out")
    assert exported.check is not None and exported.check.largest < 1e-4
    asked = prediction_model(directory)
    values: dict[str, list[Any]] = {
        "span-extraction": list(zip(english(6), german(6), strict=True)),
        "multiple-choice": [(first, german(3)) for first in english(4)],
        "regression": list(zip(english(6), german(6), strict=True)),
    }
    inputs = [asked.form.of_value(value, "here") for value in values.get(asked.task, english(9))]
    plain, fast = (list(Predictor.load(place).predict(inputs)) for place in (directory, tmp_path / "out"))
    assert [each.text for each in fast] == [each.text for each in plain]
    assert numbers(each.facts for each in fast) == pytest.approx(numbers(each.facts for each in plain), abs=1e-4)


def numbers(facts: Any) -> list[float]:
    """All numbers in nested facts."""
    if isinstance(facts, dict):
        return numbers(facts.values())
    if isinstance(facts, int | float):
        return [float(facts)]
    return [] if facts is None or isinstance(facts, str) else [number for each in facts for number in numbers(each)]


def test_an_exported_classifier_predicts_and_is_damaged_plainly(tmp_path: Path, capsys: Any) -> None:
    _, directory = published("roberta-large-mnli", tmp_path)
    out = tmp_path / "out"
    assert main(["export", str(directory), "--to", "ctranslate2", "--quantization", "int8", "--out", str(out)]) == 0
    assert f"`subgraft predict {out}` uses it" in capsys.readouterr().out
    (tmp_path / "text.txt").write_text("Ein Satz.\n")
    assert main(["predict", str(out), "--input", str(tmp_path / "text.txt")]) == 0
    assert capsys.readouterr().out.strip() in HEADED["roberta-large-mnli"].labels
    assert main(["generate", "--model", str(out), "--input", str(tmp_path / "text.txt")]) == 2
    assert "writes no text" in capsys.readouterr().err
    (out / "head.safetensors").unlink()
    assert main(["predict", str(out), "--input", str(tmp_path / "text.txt")]) == 2
    assert "the head's weights cannot be loaded" in capsys.readouterr().err


def test_a_head_has_one_table_for_both_sides(tmp_path: Path) -> None:
    _, directory = published("bart-large-mnli", tmp_path)
    bundle = Bundle.load(directory)
    grown = extend(bundle.decoder, german(300), 20)
    with pytest.raises(UserError, match=r"one embedding matrix(?s:.*)--sides encoder,decoder"):
        transfer(directory, {"decoder": grown}, Method("mean"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_head_follows_a_graft_of_its_base(tmp_path: Path) -> None:
    """The order of a run: the base gets its vocabulary first, a new head afterwards."""
    HEADED["bert-base-NER"].base(tmp_path / "base")
    base = Bundle.load(tmp_path / "base")
    grown = extend(base.decoder, german(300), 20)
    transfer(tmp_path / "base", dict.fromkeys(base.tokenizers, grown), Method("mean"), tmp_path / "grafted")
    own, other = (with_head(Bundle.load(tmp_path / each).model, "tokens", 5, 3) for each in ("base", "grafted"))
    assert changed(weights(own), weights(other)) == {"bert.embeddings.word_embeddings.weight"}
