"""ERNIE 2's tasks of labels: their examples against independent ones, their heads against transformers' classes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations, product
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file
from scipy import stats

from documents import documents_of
from engine_runs import assert_weights_agree, run_workers
from ernie_tasks import with_saved_head
from labelled import labelled_corpus
from subgraft.base.errors import UserError
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.training import TrainingSettings
from subgraft.contrib.ernie.label_objective import TaskObjective
from subgraft.contrib.ernie.objectives import (
    CapitalisationSettings,
    DistanceSettings,
    LabelTaskSettings,
    RelevanceSettings,
    ReorderingSettings,
    TokenDocumentSettings,
)
from subgraft.contrib.ernie.settings import ErnieSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import FAMILIES
from subgraft.modeling.further_heads import HEADS, write_heads_of_objectives
from subgraft.modeling.heads import head_of
from subgraft.modeling.load import load_model
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.mixture import MixedBatch, MixedLoss, objectives_of
from subgraft.training.objectives.masked import MaskedSettings
from toys import SHAPE, one_stack

TRAINING = TrainingSettings(epochs=1, batch_size=500, learning_rate=0.001, warmup_steps=1, max_length=40)
ENGLISH = Languages(source="en", target="en")
FIRST, SECOND = ["ba", "do", "ki", "lu", "me", "no", "pa", "re"], ["la", "mo", "ni", "ve", "zu"]
NAMES = ["Anna", "Bert", "Carl", "Dora", "Emil", "Fritz", "Greta", "Hanna"]


def _sentences(count: int, seed: int) -> list[str]:
    """Sentences that differ, of three to six words, some capitalised."""
    rng = np.random.default_rng(seed)
    words = ["".join(pair) for pair in product(FIRST, SECOND)]
    drawn = [[*rng.choice(words, rng.integers(2, 5)), *rng.choice(NAMES, 1)] for _ in range(count)]
    return [f"{' '.join(rng.permutation(each))} {seed} {number}." for number, each in enumerate(drawn)]


def _corpus(folder: Path, documents: int = 6, sentences: int = 40) -> Corpus:
    return documents_of(folder, *(_sentences(sentences, number) for number in range(documents)))


def _bundle(tasks: int = 5) -> Bundle:
    lines = [line.lower() for number in range(6) for line in _sentences(40, number)]
    tokenizer = learn([*lines, *_sentences(40, 9)], kind="wordpiece", size=150)
    settings = ErnieSettings(**one_stack(SHAPE, "encoder_layers"), task_embeddings=tasks)
    return Bundle(FAMILIES["ernie"].build(settings, tokenizer, tokenizer, 1).eval(), tokenizer, tokenizer)


def _request(corpus: Corpus, tasks: int = 5, **training: Any) -> ObjectiveInputs:
    return ObjectiveInputs(_bundle(tasks), corpus, ENGLISH, TRAINING.model_copy(update=training), 1)


def _texts(tokenizer: Tokenizer, row: list[int]) -> list[str]:
    """The texts of a row between its special tokens, without spaces."""
    texts, now = list[str](), list[int]()
    for token in row[1:]:
        if token == tokenizer.special["eos"]:
            texts.append(tokenizer.decode(now).replace(" ", ""))
            now = []
        elif token != tokenizer.special["pad"]:
            now.append(token)
    return texts


def test_capital_letters_are_learnt_from_text_without_them(tmp_path: Path) -> None:
    request = _request(_corpus(tmp_path))
    tokenizer, lines = request.bundle.encoder, [line for _, text in request.texts() for line in text]
    objective = TaskObjective(CapitalisationSettings(), request)
    batch = objective.batch(np.arange(len(lines)), 0)
    assert (objective.lengths == batch.attention_mask.sum(1).numpy()).all()
    for line, row, labels in zip(lines, batch.input_ids.tolist(), batch.labels.tolist(), strict=True):
        assert _texts(tokenizer, row) == [line.lower().replace(" ", "")]
        pieces = [tokenizer.pieces[token] for token, label in zip(row, labels, strict=True) if label != IGNORED]
        words = [word for word in line[:-1].split() if not word.isdigit()]
        assert [label for label in labels if label != IGNORED] == [int(word[0].isupper()) for word in words]
        assert all(word.lower().startswith(piece) for word, piece in zip(words, pieces, strict=True))


def test_a_token_is_labelled_by_whether_other_blocks_of_its_document_have_it(tmp_path: Path) -> None:
    request = _request(_corpus(tmp_path, documents=3, sentences=12))
    objective = TaskObjective(TokenDocumentSettings(), request)
    batch = objective.batch(np.arange(len(objective.lengths)), 0)
    tokenizer, text = request.bundle.encoder, next(iter(request.documents()))
    bounds = [text.starts[number : number + 2] for number in range(3)]
    whole = ["".join(text.lines[at] for at in range(*of_one)).replace(" ", "") for of_one in bounds]
    rows = [[token for token in row if token not in tokenizer.special_ids] for row in batch.input_ids.tolist()]
    spelled = [tokenizer.decode(row).replace(" ", "") for row in rows]
    of = [next(number for number, document in enumerate(whole) if block in document) for block in spelled]
    seen = set()
    for at, (row, labels) in enumerate(zip(rows, batch.labels.tolist(), strict=True)):
        others = {token for other, tokens in enumerate(rows) if of[other] == of[at] and other != at for token in tokens}
        assert [label for label in labels if label != IGNORED] == [int(token in others) for token in row]
        seen |= {label for label in labels if label != IGNORED}
    assert seen == {0, 1}


@pytest.mark.parametrize("most", [2, 3])
def test_the_label_of_a_shuffled_block_restores_its_order(most: int, tmp_path: Path) -> None:
    """The number of segments is uniform and so is their order: χ² of 9 (3) classes over 6,000 examples."""
    request = _request(_corpus(tmp_path), max_length=120)
    tokenizer = request.bundle.encoder
    whole = "".join(line for _, text in request.texts() for line in text).replace(" ", "")
    settings = ReorderingSettings(segments=most)
    objective = TaskObjective(settings, request)
    orders = [order for size in range(1, most + 1) for order in permutations(range(size))]
    assert len(settings.labels) == len(orders) == sum(factorial(size) for size in range(1, most + 1))
    counts, expected, count = np.zeros(len(orders)), np.zeros(len(orders)), len(objective.lengths)
    for epoch in range(3000 // count):
        batch = objective.batch(np.arange(count), epoch)
        counts += np.bincount(batch.labels.numpy(), minlength=len(orders))
        for row, types, label in zip(batch.input_ids, batch.token_type_ids, batch.labels, strict=True):
            texts, order = _texts(tokenizer, row.tolist()), orders[int(label)]
            assert len(texts) == len(order) == len(set(types[row != tokenizer.special["pad"]].tolist()))
            restored = "".join(text for _, text in sorted(zip(order, texts, strict=True)))
            assert restored in whole, "segments in the order of their document"
            largest = min(most, restored.count("."))
            expected += [(len(each) <= largest) / largest / factorial(len(each)) for each in orders]
    assert stats.chisquare(counts, expected).pvalue > 1e-3


def test_sentences_are_adjacent_or_of_one_document_or_of_two(tmp_path: Path) -> None:
    """χ² of the three classes over 5,000 pairs of sentences that can have them all."""
    request = _request(_corpus(tmp_path))
    tokenizer, place = request.bundle.encoder, dict[str, tuple[int, int]]()
    for number in range(6):
        place |= {line.replace(" ", ""): (number, at) for at, line in enumerate(_sentences(40, number))}
    objective = TaskObjective(DistanceSettings(), request)
    counts, second_documents = np.zeros(3), Counter[int]()
    for epoch in range(22):
        batch = objective.batch(np.arange(240), epoch)
        for row, label in zip(batch.input_ids.tolist(), batch.labels.tolist(), strict=True):
            first, second = (place[text] for text in _texts(tokenizer, row))
            same = first[0] == second[0]
            assert label == (2 if not same else 0 if second[1] == first[1] + 1 else 1)
            assert not same or abs(second[1] - first[1]) >= 1
            assert label != 1 or abs(second[1] - first[1]) > 1
            counts[label] += first[1] < 39
            second_documents[second[0]] += label == 2
    assert stats.chisquare(counts).pvalue > 1e-3
    assert stats.chisquare(list(second_documents.values())).pvalue > 1e-3


OBJECTIVES: tuple[Any, ...] = (
    CapitalisationSettings(),
    TokenDocumentSettings(),
    ReorderingSettings(),
    DistanceSettings(),
)


@pytest.mark.parametrize("settings", OBJECTIVES, ids=lambda each: each.kind)
def test_the_loss_is_that_of_transformers_class_and_trains_the_body(
    settings: LabelTaskSettings, tmp_path: Path
) -> None:
    request = _request(_corpus(tmp_path))
    model: Any = request.bundle.model
    objective = TaskObjective(settings, request)
    loss, batch = objective.loss(0.0), objective.batch(np.arange(12), 2)
    level = "Token" if settings.token_level else "Sequence"
    head = head_of(loss.model)
    assert type(loss.model).__name__ == f"ErnieFor{level}Classification"
    assert head is not None and len(head.labels) == len(settings.labels)
    with torch.no_grad():
        own = loss.model(
            input_ids=batch.input_ids,
            attention_mask=batch.attention_mask,
            token_type_ids=batch.token_type_ids,
            task_type_ids=torch.zeros_like(batch.input_ids),
            labels=batch.labels,
        ).loss
        assert float(loss(batch)["loss"]) == pytest.approx(float(own) * batch.counts["loss"], rel=1e-6)
    loss(batch)["loss"].backward()
    assert model.base_model.embeddings.word_embeddings.weight.grad is not None, "one body"
    shared = {id(parameter) for parameter in model.parameters()}
    common = [parameter for parameter in loss.model.parameters() if id(parameter) in shared]
    assert len(common) == len(list(model.base_model.parameters()))


def test_each_objective_has_its_embedding_and_moves_its_own_head(tmp_path: Path) -> None:
    request = _request(_corpus(tmp_path))
    objectives = objectives_of((MaskedSettings(), *OBJECTIVES), request)
    losses = {kind: objective.loss(0.0) for kind, objective in objectives.items()}
    mixed = MixedLoss(request.bundle.model, losses)
    assert len(mixed.models) == 5 and mixed.models[0] is request.bundle.model
    named = dict(mixed.named_parameters())
    model: Any = request.bundle.model
    tasks = model.base_model.embeddings.task_type_embeddings.weight
    for number, (kind, objective) in enumerate(objectives.items()):
        mixed.zero_grad()
        batch = MixedBatch(kind, objective.batch(np.arange(6), 0))
        torch.autograd.backward(mixed(batch)[f"{kind}_loss"])
        heads = {name: each for name, each in named.items() if name.startswith("losses.")}
        moved = {name.split(".")[1] for name, parameter in heads.items() if parameter.grad is not None}
        assert moved == ({kind} if kind != "masked" else set())
        assert tasks.grad is not None and tasks.grad.abs().sum(1).nonzero().flatten().tolist() == [number]
    tokens = objectives_of((CapitalisationSettings(), MaskedSettings()), request, of_tokens=True)
    assert list(tokens) == ["masked"], "generators are trained on objectives that predict tokens"
    with pytest.raises(UserError, match="is trained on the objective capitalisation"):
        objectives["capitalisation"].view("decoder")


def test_saved_heads_and_the_model_are_read_again(tmp_path: Path) -> None:
    request = _request(_corpus(tmp_path / "text"))
    objectives = objectives_of((MaskedSettings(), *OBJECTIVES), request)
    losses = {kind: objective.loss(0.0) for kind, objective in objectives.items()}
    with torch.no_grad():
        for loss in losses.values():
            for parameter in loss.parameters():
                parameter.add_(0.01)
    place = tmp_path / "model"
    request.bundle.save(place)
    headed = {kind: loss.model for kind, loss in losses.items() if loss.has_own_head}
    write_heads_of_objectives(request.bundle.model, headed, place)
    assert {name.split(".")[0] for name in load_file(place / HEADS)} == {each.kind for each in OBJECTIVES}
    batch = objectives["sentence-distance"].batch(np.arange(5), 0)
    inputs = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    with torch.no_grad():
        for kind in ("capitalisation", "sentence-distance"):
            again: Any = with_saved_head(load_model(place), place, kind)
            assert torch.equal(again(**inputs).logits, losses[kind].model(**inputs).logits)
        read = transformers.AutoModelForMaskedLM.from_pretrained(place).eval()
        assert type(read) is transformers.ErnieForMaskedLM
        assert torch.equal(read(**inputs).logits, request.bundle.model(**inputs).logits)
    continued = objectives_of((MaskedSettings(), *OBJECTIVES), replace(request, bundle=Bundle.load(place)))
    for kind in ("capitalisation", "sentence-reordering"):
        reused, before = (each[kind].loss(0.0).model.state_dict() for each in (continued, objectives))
        own = losses[kind].model.state_dict()
        heads = [name for name in own if name.startswith("classifier.")]
        assert heads and all(torch.equal(reused[name], own[name]) for name in heads), "a pretraining that continues"
        assert not any(torch.equal(before[name], own[name]) for name in heads)
    with pytest.raises(UserError, match="no head of 'masked'"):
        with_saved_head(load_model(place), place, "masked")


def test_pairs_of_a_labelled_corpus_have_its_classes(tmp_path: Path) -> None:
    corpus = labelled_corpus("pair-classification", tmp_path / "pairs", train=30, dev=4)
    request = replace(_request(_corpus(tmp_path / "text")), further={"relevance": corpus})
    objective = TaskObjective(RelevanceSettings(corpus="pairs"), request)
    batch, labels = objective.batch(np.arange(30), 0), sorted(set(corpus.lines("train", "label")))
    assert [labels[label] for label in batch.labels.tolist()] == list(corpus.lines("train", "label"))
    encoder = request.bundle.encoder
    for row, (first, second) in zip(batch.input_ids.tolist(), corpus.pairs("train"), strict=True):
        cls, end = encoder.special["bos"], encoder.special["eos"]
        whole = [cls, *encoder.encode(first), end, *encoder.encode(second), end]
        assert len(whole) > 40 or row[: len(whole)] == whole
    loss = objective.loss(0.0)
    head = head_of(loss.model)
    assert head is not None and list(head.labels) == labels


@pytest.mark.parametrize("settings", OBJECTIVES[1:], ids=lambda each: each.kind)
def test_text_without_documents_is_refused(settings: LabelTaskSettings, tmp_path: Path) -> None:
    (tmp_path / "train.en").write_text("".join(f"{line}\n" for line in _sentences(8, 1)))
    source = CorpusSource(files={"train": (str(tmp_path / "train.en"),)})
    with pytest.raises(UserError, match="a corpus without documents"):
        TaskObjective(settings, _request(build(source, ENGLISH, Cleaning(), tmp_path / "out")))


@pytest.mark.parametrize(
    ("settings", "documents", "complaint"),
    [
        (CapitalisationSettings(), [["no capital", "here", "at all"]], "no word is capitalised"),
        (DistanceSettings(), [["One document", "of two sentences"]], "has one document"),
        (TokenDocumentSettings(), [["A word"], ["Another word"]], "no document is longer than a block"),
        (ReorderingSettings(), [["A word"], ["Another word"]], "no block has two sentences"),
    ],
)
def test_text_without_examples_is_refused(
    settings: LabelTaskSettings, documents: list[list[str]], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=complaint):
        TaskObjective(settings, _request(documents_of(tmp_path, *documents)))


def test_a_model_without_an_embedding_for_an_objective_is_refused(tmp_path: Path) -> None:
    request = _request(_corpus(tmp_path), tasks=1)
    with pytest.raises(UserError, match="embeddings of 1 objectives, and there are more"):
        objectives_of((MaskedSettings(), CapitalisationSettings()), request)
    assert list(objectives_of((MaskedSettings(), CapitalisationSettings()), _request(request.corpus, tasks=0)))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "workers"), [("plain", 2), ("zero2", 1), ("zero2", 2)])
def test_the_same_heads_are_trained_by_any_workers(kind: str, workers: int, tmp_path: Path) -> None:
    losses = run_workers("plain", 1, tmp_path / "one", task="ernie")
    assert run_workers(kind, workers, tmp_path / "two", task="ernie") == pytest.approx(losses, rel=1e-4)
    expected, final = (load_file(tmp_path / run / "final.safetensors") for run in ("one", "two"))
    fewer = {name for name in expected if name.startswith("updates.")}
    assert any("sentence-distance" in name for name in fewer), "a head has the updates of its own batches only"
    assert expected.keys() == final.keys() and all(torch.equal(final[name], expected[name]) for name in fewer)
    reshaped = {name: tensor.reshape(expected[name].shape) for name, tensor in final.items()}
    assert_weights_agree(reshaped, expected, rtol=1e-2, atol=2e-4)
