"""Classifying heads: transformers' own classes around a pretrained body, saved, loaded and counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import HeadKind, SideName
from subgraft.modeling.families import Head, count_parameters, family_of, head_in
from subgraft.modeling.heads import AUTO_CLASSES, head_class, head_of, head_parameters, require_token_head, with_head
from subgraft.modeling.load import load_body, load_model, save_model
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import (
    bert,
    bert2bert,
    cased_tokenizer,
    german_tokenizer,
    gpt2,
    joint_tokenizer,
    llama,
    marian,
    mbart,
    multilingual_tokenizer,
    publish_bert,
    t5,
)

LABELS = ("bad", "good", "neither")
KINDS: tuple[HeadKind, ...] = ("sequence", "tokens", "span", "choice")
MODELS: dict[str, tuple[Callable[[], PreTrainedModel], Callable[[], Tokenizer]]] = {
    "bert": (bert, cased_tokenizer),
    "gpt2": (gpt2, german_tokenizer),
    "llama": (llama, german_tokenizer),
    "mbart": (mbart, multilingual_tokenizer),
    "t5": (t5, joint_tokenizer),
    "t5 untied": (lambda: t5(tied=False), joint_tokenizer),
}
PAIRS = [
    (name, kind) for name, (make, _) in MODELS.items() for kind in KINDS if not (name == "mbart" and kind == "tokens")
]


def tokenizers(name: str) -> dict[SideName, Tokenizer]:
    make, tokenizer = MODELS[name]
    return dict.fromkeys(family_of(make()).sides, tokenizer())


def weights(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_the_body_is_unchanged_and_the_head_depends_on_the_seed_alone(name: str, kind: HeadKind) -> None:
    make, _ = MODELS[name]
    body = weights(make().base_model)
    torch.manual_seed(0)
    made = with_head(make(), kind, LABELS, 5, padding_id=0)
    assert type(made) is head_class(made.config, kind)
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(torch.rand(1), drawn)
    own = weights(made.base_model)
    assert len(own.keys() & body.keys()) > 10
    assert all(torch.equal(own[each], body[each]) for each in own.keys() & body.keys())
    assert same(weights(with_head(make(), kind, LABELS, 5, padding_id=0)), weights(made))
    assert not same(weights(with_head(make(), kind, LABELS, 6, padding_id=0)), weights(made))
    tables = {id(side(made, each).input.weight) for each in family_of(made).sides}
    assert tables == {id(made.get_input_embeddings().weight)}


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_what_is_saved_is_loaded_here_and_by_transformers(name: str, kind: HeadKind, tmp_path: Path) -> None:
    make, _ = MODELS[name]
    made = with_head(make(), kind, LABELS, 5, padding_id=0)
    save_model(made, tokenizers(name), tmp_path)
    again = load_model(tmp_path)
    assert type(again) is type(made) and same(weights(again), weights(made))
    assert head_of(again) == head_of(made) == head_in(json.loads((tmp_path / "config.json").read_text()))
    expected = sum(parameter.numel() for parameter in made.parameters())
    assert count_parameters(again.config.to_dict()).total == expected
    stands_in = type(made).__name__.endswith("ForSequenceClassification")
    auto = getattr(transformers, AUTO_CLASSES["sequence" if stands_in else kind])
    theirs = auto.from_pretrained(tmp_path).eval()
    ids = torch.tensor([[5, 6, 7, made.config.eos_token_id or 1]])
    inputs = ids[:, None] if kind == "choice" and not stands_in else ids
    with torch.no_grad():
        first, second = again(input_ids=inputs), theirs(input_ids=inputs)
    pairs = [pair for pair in zip(first.to_tuple(), second.to_tuple(), strict=True) if torch.is_tensor(pair[0])]
    assert pairs and all(torch.equal(*pair) for pair in pairs)


def test_labels_problem_and_dropout_are_the_configurations() -> None:
    made = with_head(bert(), "sequence", LABELS, 1, problem_type="multi_label_classification", dropout=0.4)
    assert head_of(made) == Head("sequence", LABELS, "multi_label_classification")
    assert made.config.label2id == {"bad": 0, "good": 1, "neither": 2} and made.config.num_labels == 3
    assert made.dropout.p == 0.4  # type: ignore[union-attr]
    assert "3 labels (bad, good, neither)" in str(head_of(made))
    assert head_of(with_head(bert(), "tokens", 2, 1)) == Head("tokens", ("LABEL_0", "LABEL_1"))
    assert head_of(with_head(gpt2(), "choice", 1, 1, padding_id=0)) == Head("choice", ("choice",))
    assert head_of(bert()) is None


def test_a_head_replaces_another() -> None:
    first = with_head(bert(), "tokens", 5, 1)
    body = weights(first.base_model)
    second = with_head(first, "sequence", LABELS, 2)
    own = weights(second.base_model)
    assert all(torch.equal(own[name], tensor) for name, tensor in body.items())
    assert same(weights(second), weights(with_head(bert(), "sequence", LABELS, 2)))


@pytest.mark.parametrize("make", [marian, bert2bert])
def test_a_model_without_such_a_class_is_refused(make: Callable[[], PreTrainedModel]) -> None:
    with pytest.raises(UserError, match=r"transformers has no .* model with a head that classifies texts"):
        with_head(make(), "sequence", LABELS, 1)


def test_messages_say_what_there_is() -> None:
    with pytest.raises(UserError, match="tags tokens") as refused:
        with_head(mbart(), "tokens", LABELS, 1)
    assert "a head that classifies texts, or a head that finds answers" in str(refused.value)
    model = gpt2()
    model.config.pad_token_id = None
    with pytest.raises(UserError, match="no padding id"):
        with_head(model, "sequence", LABELS, 1)
    with pytest.raises(UserError, match="labels must be distinct"):
        with_head(bert(), "sequence", ("a", "a"), 1)
    with pytest.raises(UserError, match=r"has a head that tags tokens.*none that predicts tokens"):
        require_token_head(with_head(bert(), "tokens", LABELS, 1))
    require_token_head(bert())


@pytest.mark.parametrize("pretraining", [True, False])
def test_a_pretrained_pooler_is_retained(pretraining: bool, tmp_path: Path) -> None:
    publish_bert(tmp_path, pretraining=pretraining)
    made = with_head(load_body(tmp_path), "sequence", LABELS, 5)
    whole = with_head(load_model(tmp_path), "sequence", LABELS, 5)
    assert all(torch.equal(tensor, whole.state_dict()[name]) for name, tensor in weights(made).items())
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    pooler = [f"bert.pooler.dense.{part}" for part in ("weight", "bias")]
    if pretraining:
        assert all(torch.equal(made.state_dict()[name], theirs.state_dict()[name]) for name in pooler)
    else:
        drawn = with_head(load_model(tmp_path), "sequence", LABELS, 6)
        assert not torch.equal(made.state_dict()[pooler[0]], drawn.state_dict()[pooler[0]])


@pytest.mark.parametrize("name", ["bert", "gpt2", "mbart", "t5", "t5 untied"])
def test_a_body_alone_gets_the_same_head(name: str, tmp_path: Path) -> None:
    make, _ = MODELS[name]
    body: Any = make().base_model
    body.save_pretrained(tmp_path / "body")
    save_model(make(), tokenizers(name), tmp_path / "model")
    expected = weights(with_head(make(), "sequence", LABELS, 5, padding_id=0))
    for place in ("body", "model"):
        made = with_head(load_body(tmp_path / place), "sequence", LABELS, 5, padding_id=0)
        assert same(weights(made), expected), place
    save_model(with_head(make(), "span", LABELS, 7, padding_id=0), tokenizers(name), tmp_path / "headed")
    made = with_head(load_body(tmp_path / "headed"), "sequence", LABELS, 5, padding_id=0)
    assert same(weights(made), expected)


def test_a_body_lacks_no_weights(tmp_path: Path) -> None:
    save_model(bert(), tokenizers("bert"), tmp_path)
    held = load_file(tmp_path / "model.safetensors")
    rest = {name: each for name, each in held.items() if "layer.0.output" not in name}
    save_file(rest, tmp_path / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match="weights are missing"):
        load_body(tmp_path)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    save_model(with_head(bert(), "sequence", LABELS, 1), tokenizers("bert"), tmp_path)
    return tmp_path


def edited(directory: Path, **entries: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | entries))


def test_a_missing_head_is_an_error(saved: Path) -> None:
    held = load_file(saved / "model.safetensors")
    del held["classifier.weight"]
    save_file(held, saved / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"1 weights are missing, among them classifier\.weight"):
        load_model(saved)


def test_labels_that_do_not_fit_are_an_error(saved: Path) -> None:
    edited(saved, id2label={"0": "a", "1": "b"}, label2id={"a": 0, "b": 1})
    with pytest.raises(UserError, match=r"classifier.* size \[3.*is \[2(?s:.*)are 2, the weights' 3"):
        load_model(saved)
    edited(saved, max_position_embeddings=2)
    with pytest.raises(UserError, match="position_embeddings") as refused:
        load_model(saved)
    assert "labels" not in refused.value.hint, "the labels are not what differs"
    edited(saved, id2label={"0": "a", "2": "b"})
    with pytest.raises(UserError, match="does not number the labels from 0"):
        load_model(saved)
    edited(saved, id2label={"0": "a", "1": "b"}, num_labels=3)
    with pytest.raises(UserError, match="num_labels 3 and names 2 labels"):
        load_model(saved)


def test_a_class_that_the_family_lacks_is_an_error(saved: Path) -> None:
    edited(saved, model_type="marian", architectures=["MarianForTokenClassification"])
    with pytest.raises(UserError, match="no marian model with a head that tags tokens"):
        load_model(saved)


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_the_parameters_of_a_head_are_those_that_another_seed_changes(name: str, kind: HeadKind) -> None:
    one, other = (with_head(MODELS[name][0](), kind, LABELS, seed, padding_id=0) for seed in (1, 2))
    head = {id(parameter) for parameter in head_parameters(one)}
    drawn = {
        key
        for (key, tensor), (_, second) in zip(one.named_parameters(), other.named_parameters(), strict=True)
        if not torch.equal(tensor, second)
    }
    assert drawn and drawn <= {key for key, tensor in one.named_parameters() if id(tensor) in head}
    # Only biases, which begin at zero, are equal for both seeds.
    assert all(key in drawn or key.endswith("bias") for key, tensor in one.named_parameters() if id(tensor) in head)
    assert not head_parameters(MODELS[name][0]())
