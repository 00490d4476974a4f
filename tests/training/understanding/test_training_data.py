"""The examples that a finetuning on labels trains on: which, at what cost in a batch, and the texts that they have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labelled import ENGLISH, RECORDS, labelled_corpus
from subgraft.config.corpora import Cleaning
from subgraft.config.training import FinetuneSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.registry import task_objective
from subgraft.training.schedule import data_plan
from subgraft.training.understanding.inputs import TextEncoder
from subgraft.training.understanding.objective import LabelledExamples, with_task_head
from subgraft.training.understanding.spans import SpanExtraction
from toys import bert, cased_tokenizer, english_tokenizer, gpt2


def data_of(task: str, corpus: Corpus, tokenizer: Tokenizer | None = None, **settings: Any) -> LabelledExamples:
    vocabulary = tokenizer or cased_tokenizer()
    objective: Any = task_objective(task)
    bundle = with_task_head(Bundle(bert(), vocabulary, vocabulary), objective, corpus, 1)
    defaults = {"epochs": 1, "batch_size": 500, "learning_rate": 0.001, "warmup_steps": 1, "max_length": 48}
    training = FinetuneSettings.model_validate(defaults | settings)
    return LabelledExamples(objective, ObjectiveInputs(bundle, corpus, ENGLISH, training, 1), training)


def ranked(records: list[tuple[str, str, int]], place: Path) -> Corpus:
    (place / "files").mkdir()
    lines = "".join(
        json.dumps({"query": query, "candidate": candidate, "relevance": relevance}) + "\n"
        for query, candidate, relevance in records
    )
    for split in ("train", "dev", "test"):
        (place / "files" / f"{split}.jsonl").write_text(lines)
    columns = {"query": "query", "candidate": "candidate", "relevance": "relevance"}
    settings = CorpusSource.model_validate({"labelled": {"folder": str(place / "files"), **columns}})
    cleaning = Cleaning(max_characters=None, max_ratio=None, deduplicate=False, drop_held_out=False)
    return build(settings, ENGLISH, cleaning, place / "corpus", base=place)


@pytest.mark.parametrize("task", RECORDS)
def test_costs_in_characters_are_those_of_the_text_whatever_the_vocabulary(task: str, tmp_path: Path) -> None:
    corpus = labelled_corpus(task, tmp_path)
    long = {"max_length": 60}
    by_characters = [
        data_of(task, corpus, each, batch_unit="characters", **long).lengths
        for each in (cased_tokenizer(), english_tokenizer())
    ]
    by_tokens = [data_of(task, corpus, each, **long).lengths for each in (cased_tokenizer(), english_tokenizer())]
    if task != "span-extraction":  # windows of passages differ
        assert by_characters[0].tolist() == by_characters[1].tolist()
    assert by_tokens[0].tolist() != by_tokens[1].tolist()
    assert by_characters[0].mean() > by_tokens[0].mean()
    if task == "classification":
        assert by_characters[0].tolist() == [len(line) + 1 for line in corpus.lines("train", "source")]


def test_a_share_of_the_data_is_one_of_questions_not_of_windows(tmp_path: Path) -> None:
    corpus = labelled_corpus("span-extraction", tmp_path)
    whole, part = (data_of("span-extraction", corpus, max_length=24, max_train_examples=most) for most in (None, 6))
    bundle = Bundle(bert(), cased_tokenizer(), cased_tokenizer())
    split = SpanExtraction.of(corpus).split(corpus, "train", TextEncoder.of(bundle, ENGLISH, longest=24))
    assert split.owners is not None
    windows = np.bincount(split.owners)
    assert len(whole.lengths) == windows.sum() > 60 == len(windows), "passages have several windows"
    # Evenly spaced: each tenth question, with all its windows.
    assert len(part.lengths) == windows[::10].sum()
    ids = [set(map(tuple, each.batch(np.arange(len(each.lengths)), 0).input_ids.tolist())) for each in (whole, part)]
    assert {row[:24] for row in ids[1]} <= {row[:24] for row in ids[0]}


def test_a_query_that_teaches_nothing_is_left_out_of_training_and_counts_in_evaluation(tmp_path: Path) -> None:
    records = [
        ("one", "a thanking friend", 0),
        ("one", "a town", 1),
        ("two", "a book", 0),
        ("two", "the garden", 0),
        ("three", "the only one", 1),
        ("four", "a town", 2),
        ("four", "the garden", 1),
        ("four", "a landing", 0),
    ]
    corpus = ranked(records, tmp_path)
    data = data_of("ranking", corpus)
    assert len(data.lengths) == 2 and data.most_rows == 3
    batch = data.batch(np.arange(2), 0)
    assert batch.counts == {"loss": 2} and batch.labels.tolist() == [0, 1, 0.5, 0.5, 0]
    scores = data.dev_scores(data._request.bundle)()
    assert 0 < scores["score"] < 100 and np.isfinite(scores["nats"])


def test_batches_of_examples_of_several_rows_keep_to_their_size(tmp_path: Path) -> None:
    corpus = labelled_corpus("multiple-choice", tmp_path)
    settings: dict[str, Any] = {"batch_size": 400, "max_length": 40}
    data = data_of("multiple-choice", corpus, **settings)
    training = FinetuneSettings.model_validate({"epochs": 1, "learning_rate": 0.001, "warmup_steps": 1, **settings})
    assert data.lengths.max() > 40, "the cost of an example is that of all its rows"
    for places in data_plan(data, training, seed=1).epoch(0):
        batch = data.batch(places, 0)
        assert batch.shape[0] * batch.shape[1] <= 400


@pytest.mark.parametrize("task", ["classification", "pair-classification", "multiple-choice"])
def test_each_text_is_counted_once_for_the_one_vocabulary(task: str, tmp_path: Path) -> None:
    corpus = labelled_corpus(task, tmp_path)
    names = [field.name for field in corpus.fields if field.kind == "text"]
    wanted = [line for name in names for line in corpus.lines("train", name)]
    read = data_of(task, corpus).texts
    assert [list(read[side]) for side in ("encoder", "decoder")] == [wanted, []]
    vocabulary = cased_tokenizer()
    objective: Any = task_objective(task)
    decoder = with_task_head(Bundle(gpt2(), vocabulary, vocabulary), objective, corpus, 1)
    training = FinetuneSettings.model_validate(
        {"epochs": 1, "batch_size": 500, "learning_rate": 0.001, "warmup_steps": 1}
    )
    alone = LabelledExamples(objective, ObjectiveInputs(decoder, corpus, ENGLISH, training, 1), training)
    assert list(alone.texts["decoder"]) == wanted


def test_a_model_reads_as_many_tokens_after_its_finetuning_as_in_it(tmp_path: Path) -> None:
    corpus = labelled_corpus("classification", tmp_path)
    vocabulary = cased_tokenizer()
    objective: Any = task_objective("classification")
    bundle = with_task_head(Bundle(bert(), vocabulary, vocabulary), objective, corpus, 1, longest=12)
    bundle.save(tmp_path / "model")
    loaded = Bundle.load(tmp_path / "model")
    assert TextEncoder.of(loaded, ENGLISH).longest == 12 and TextEncoder.of(loaded, ENGLISH, 9).longest == 9
    others: list[Any] = [{"max_length": "x"}, [], {"max_length": 100_000}]
    for other in others:
        loaded.model.config.subgraft_task = other
        assert TextEncoder.of(loaded, ENGLISH).longest == loaded.max_positions
