"""Small labelled corpora of each task, of invented words. What is to be predicted shows in the text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings
from subgraft.training.objectives.registry import task_objective
from subgraft.training.understanding.objective import with_task_head
from toys import bert, cased_tokenizer, english

ENGLISH = Languages(source="en", target="en")
Record = dict[str, Any]


def _classification(texts: list[list[str]]) -> Iterator[Record]:
    for words in texts:
        yield {"text": " ".join(words), "label": "long" if len(words[0]) > 6 else "short"}


def _pairs(texts: list[list[str]]) -> Iterator[Record]:
    for place, words in enumerate(texts):
        other = words[::-1] if place % 2 else texts[place - 1]
        yield {"text": " ".join(words), "second": " ".join(other), "label": "same" if place % 2 else "other"}


def _numbers(texts: list[list[str]]) -> Iterator[Record]:
    for place, words in enumerate(texts):
        yield {"text": " ".join(words), "second": " ".join(texts[place - 1]), "value": len(words) / 4}


def _choices(texts: list[list[str]]) -> Iterator[Record]:
    for place, words in enumerate(texts):
        answer = place % 3
        choices = [" ".join(texts[place - 1 - at][:2]) for at in range(3)]
        choices[answer] = " ".join(words[:2])
        yield {"text": " ".join(words), "choices": choices, "answer": answer}


def _spans(texts: list[list[str]]) -> Iterator[Record]:
    for place, words in enumerate(texts):
        passage = " ".join(words)
        end = len(words[0]) + 1 + len(words[1])
        answers = [] if place % 4 == 0 else [[len(words[0]) + 1, end]]
        yield {"question": words[0], "passage": passage, "answers": answers}


def _tags(texts: list[list[str]]) -> Iterator[Record]:
    for words in texts:
        tags = ["B-long" if len(word) > 6 else "O" for word in words]
        yield {"words": words, "tags": tags}


def _queries(texts: list[list[str]]) -> Iterator[Record]:
    for place, words in enumerate(texts):
        for at in range(2 + place % 3):
            candidate = words if at == place % 2 else texts[place - 1 - at]
            yield {"query": f"{words[0]} {place}", "candidate": " ".join(candidate), "relevance": int(at == place % 2)}


def _relations(texts: list[list[str]]) -> Iterator[Record]:
    for place, words in enumerate(texts):
        first, second = [0, len(words[0])], [len(words[0]) + 1, len(words[0]) + 1 + len(words[1])]
        head, tail = (first, second) if place % 2 else (second, first)
        yield {"text": " ".join(words), "head": head, "tail": tail, "label": "before" if place % 2 else "after"}


def _types(texts: list[list[str]]) -> Iterator[Record]:
    for words in texts:
        labels = [name for name, is_set in (("long", len(words[0]) > 6), ("first", True)) if is_set]
        yield {"text": " ".join(words), "entity": [0, len(words[0])], "labels": labels}


# By task: its records, and the columns that the configuration names.
RECORDS: Mapping[str, tuple[Callable[[list[list[str]]], Iterator[Record]], dict[str, Any]]] = {
    "classification": (_classification, {}),
    "pair-classification": (_pairs, {"text": "text", "text_pair": "second", "label": "label"}),
    "regression": (_numbers, {"text": "text", "text_pair": "second", "value": "value"}),
    "multiple-choice": (_choices, {"text": "text", "choices": "choices", "answer": "answer"}),
    "span-extraction": (_spans, {"question": "question", "passage": "passage", "answers": "answers"}),
    "tagging": (_tags, {"word": "words", "tag": "tags"}),
    "ranking": (_queries, {"query": "query", "candidate": "candidate", "relevance": "relevance"}),
    "relation-classification": (_relations, {"text": "text", "head": "head", "tail": "tail", "label": "label"}),
    "entity-typing": (_types, {"text": "text", "entity": "entity", "labels": "labels"}),
}


def write_files(task: str, folder: Path, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Files of a task's examples, and the settings of a corpus source that reads them."""
    folder.mkdir(parents=True, exist_ok=True)
    records, columns = RECORDS[task]
    for number, (split, size) in enumerate(sizes.items()):
        texts = [text.split() for text in english(size, 10 + number)]
        made = records([words if len(words) > 1 else [*words, *words] for words in texts])
        lines = "".join(json.dumps(record) + "\n" for record in made)
        (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    return {"labelled": {"folder": str(folder), **columns}}


def labelled_corpus(task: str, place: Path, **sizes: int) -> Corpus:
    """A corpus of a task, in a new folder of `place`."""
    settings = write_files(task, place / f"{task}-files", sizes or {"train": 60, "dev": 20, "test": 20})
    cleaning = Cleaning(max_characters=None, max_ratio=None, deduplicate=False, drop_held_out=False)
    return build(CorpusSource.model_validate(settings), ENGLISH, cleaning, place / task, base=place)


def headed_bundle(task: str, corpus: Corpus) -> Bundle:
    """A small BERT with the head of a task, as finetuning begins with it."""
    vocabulary = cased_tokenizer()
    settings = task_objective(task)
    assert isinstance(settings, LabelledSettings | LabelledPairsSettings)
    return with_task_head(Bundle(bert(), vocabulary, vocabulary), settings, corpus, 3)
