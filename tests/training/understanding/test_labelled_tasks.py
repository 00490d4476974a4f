"""The tasks of understanding: batches, losses as transformers computes them, and predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from labelled import ENGLISH, RECORDS, labelled_corpus
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.heads import with_head
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.understanding.inputs import LabelledBatch, TextEncoder, model_inputs
from subgraft.training.understanding.objective import head_outputs
from subgraft.training.understanding.registry import TASK_CLASSES
from subgraft.training.understanding.spans import SpanExtraction
from subgraft.training.understanding.tags import Tagging
from subgraft.training.understanding.task import LabelledTask
from toys import bert, cased_tokenizer, german_tokenizer, gpt2

MODELS: dict[str, tuple[Callable[[], PreTrainedModel], Callable[[], Tokenizer]]] = {
    "bert": (bert, cased_tokenizer),
    "gpt2": (gpt2, german_tokenizer),
}


def headed(task: LabelledTask, model: str = "bert") -> Bundle:
    build, tokenizer = MODELS[model]
    vocabulary = tokenizer()
    bundle = Bundle(build(), vocabulary, vocabulary)
    made = with_head(
        bundle.model, task.head, task.outputs, 3, problem_type=task.problem_type, padding_id=bundle.padding[0]
    )
    return Bundle(made, vocabulary, vocabulary)


def batch_of(task: LabelledTask, corpus: Corpus, bundle: Bundle, count: int = 8) -> LabelledBatch:
    encoder = TextEncoder.of(bundle, ENGLISH)
    return task.collate(task.split(corpus, "train", encoder).examples[:count], encoder.padding)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["classification", "pair-classification", "regression", "entity-typing", "tagging"])
def test_the_loss_is_that_of_transformers_with_labels(name: str, model: str, tmp_path: Path) -> None:
    corpus = labelled_corpus(name, tmp_path)
    task = TASK_CLASSES[name].of(corpus)
    bundle = headed(task, model)
    batch = batch_of(task, corpus, bundle)
    with torch.no_grad():
        ours = task.loss(task.logits(bundle.model, batch), batch) / batch.counts["loss"]
        theirs = bundle.model(**model_inputs(bundle.model, batch), labels=batch.labels).loss
    assert float(ours) == pytest.approx(float(theirs), abs=1e-6)


def test_the_loss_of_spans_is_that_of_transformers(tmp_path: Path) -> None:
    corpus = labelled_corpus("span-extraction", tmp_path)
    task = SpanExtraction.of(corpus)
    bundle = headed(task)
    batch = batch_of(task, corpus, bundle)
    assert not task.answerable and (batch.labels == 0).any() and (batch.labels > 0).any()
    # transformers' class also counts padding as places; without padding both are the same.
    inputs = model_inputs(bundle.model, batch)
    rows = batch.attention_mask.sum(1) == batch.attention_mask.shape[1]
    whole = {name: tensor[rows] for name, tensor in inputs.items()}
    with torch.no_grad():
        logits = task.logits(bundle.model, batch)[rows]
        alone = replace(batch, labels=batch.labels[rows], counted=rows.sum())
        starts, ends = batch.labels[rows].T
        theirs = bundle.model(**whole, start_positions=starts, end_positions=ends).loss
    assert float(task.loss(logits, alone) / int(rows.sum())) == pytest.approx(float(theirs), abs=1e-6)


def test_the_loss_of_choices_is_that_of_transformers(tmp_path: Path) -> None:
    corpus = labelled_corpus("multiple-choice", tmp_path)
    task = TASK_CLASSES["multiple-choice"].of(corpus)
    bundle = headed(task)
    batch = batch_of(task, corpus, bundle)
    inputs = {name: each.reshape(8, 3, -1) for name, each in model_inputs(bundle.model, batch).items()}
    with torch.no_grad():
        ours = task.loss(task.logits(bundle.model, batch), batch) / batch.counts["loss"]
        theirs = bundle.model(**inputs, labels=batch.labels.reshape(8, 3).argmax(1)).loss
    assert float(ours) == pytest.approx(float(theirs), abs=1e-6)


def test_the_loss_of_ranking_is_a_softmax_over_the_candidates_of_a_query(tmp_path: Path) -> None:
    corpus = labelled_corpus("ranking", tmp_path)
    task = TASK_CLASSES["ranking"].of(corpus)
    bundle = headed(task)
    batch = batch_of(task, corpus, bundle)
    assert len(set(batch.rows.tolist())) > 1, "queries have different numbers of candidates"
    with torch.no_grad():
        scores = task.logits(bundle.model, batch)
    expected, at = 0.0, 0
    for size in batch.rows.tolist():
        own = scores[at : at + size].double().numpy()
        right = int(batch.labels[at : at + size].argmax())
        expected -= float(own[right] - np.log(np.exp(own).sum()))
        at += size
    assert float(task.loss(scores, batch)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", RECORDS)
def test_every_task_predicts_and_scores_with_every_kind_of_model(name: str, model: str, tmp_path: Path) -> None:
    corpus = labelled_corpus(name, tmp_path)
    task = TASK_CLASSES[name].of(corpus)
    bundle = headed(task, model)
    encoder = TextEncoder.of(bundle, ENGLISH)
    split = task.split(corpus, "test", encoder)
    outputs = head_outputs(bundle.model, task, split, encoder.padding, batch_tokens=200)
    predictions = task.predictions(outputs.by_example, split)
    assert len(predictions.texts) == len(predictions.reference_texts) == len(split.references) == len(split.texts)
    statistics = task.statistics(predictions)
    assert set(statistics) == set(task.metrics)
    assert all(len(counts) == len(split.references) for counts in statistics.values())
    # The references themselves have the best score.
    perfect = task.statistics(type(predictions)(_perfect(name, split.references), split.references, [], []))
    assert task.score(perfect) == pytest.approx(100)
    # Batches of other sizes give the same outputs.
    again = head_outputs(bundle.model, task, split, encoder.padding, batch_tokens=2000)
    for one, other in zip(outputs.by_example, again.by_example, strict=True):
        shared = tuple(slice(min(sizes)) for sizes in zip(one.shape, other.shape, strict=True))
        assert np.allclose(one[shared], other[shared], atol=1e-5)


def _perfect(name: str, references: object) -> object:
    if name == "span-extraction":
        return [answers[0] if answers else "" for answers in references]  # type: ignore[attr-defined]
    return references


def test_spans_are_found_in_windows_of_long_passages(tmp_path: Path) -> None:
    corpus = labelled_corpus("span-extraction", tmp_path)
    task = SpanExtraction.of(corpus)
    bundle = headed(task)
    encoder = TextEncoder.of(bundle, ENGLISH, longest=24)
    split = task.split(corpus, "test", encoder)
    assert len(split.examples) > len(split.references)
    # A model that is sure of the wanted places finds the answers, whichever window they are in.
    outputs = []
    for example in split.examples:
        logits = np.zeros((len(example.rows[0].tokens), 2))
        logits[example.target[0], 0] += 9
        logits[example.target[1], 1] += 9
        outputs.append(logits)
    predictions = task.predictions(outputs, split)
    assert task.score(task.statistics(predictions)) == pytest.approx(100)


def test_words_beyond_the_longest_input_are_not_learnt_and_count_as_outside(tmp_path: Path) -> None:
    corpus = labelled_corpus("tagging", tmp_path)
    task = Tagging.of(corpus)
    bundle = headed(task)
    encoder = TextEncoder.of(bundle, ENGLISH, longest=8)
    split = task.split(corpus, "train", encoder)
    assert split.truncated and all(len(example.rows[0].tokens) <= 8 for example in split.examples)
    place = next(at for at, pieces in enumerate(split.details) if None in pieces)
    learnt = sum(label != IGNORED for label in split.examples[place].target)
    assert learnt == sum(piece is not None for piece in split.details[place]) < len(split.references[place])
