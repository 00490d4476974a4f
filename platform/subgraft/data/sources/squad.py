"""Questions about passages in SQuAD's JSON (Rajpurkar et al. 2016): version 1.1, and 2.0's where there is an answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.base.limits import PASSAGE_CHARACTERS, PASSAGE_QUESTIONS
from subgraft.config.settings_base import Split
from subgraft.data.sources.resolved_corpus import PairFilesSource
from subgraft.data.text import reading
from subgraft.data.text.fields import Sides

T = TypeVar("T")


@dataclass(frozen=True)
class Question:
    """A question about a passage: its answer is `passage[start:end]`."""

    passage: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question with all its answers, each with `text` and `answer_start`; none if the passage does not answer it.

    Attributes:
        number: Its place in the file, from 1.
        article: The location of its article.
        where: Its location.
    """

    passage: str
    text: str
    answers: list[dict[str, Any]]
    number: int
    article: str
    where: str


# Maps a question to the text that the model reads and the text that it writes.
Pairing = Callable[[Question], tuple[str, str]]


def questions(path: Path, counts: Counter[str]) -> Iterator[Question]:
    """The questions of a file, plain or gzipped, each with its first answer (others are from other annotators).

    An answer's start is checked against the passage. If it is wrong, the nearest occurrence of the answer is used and
    counted as "answer_moved"; without any occurrence the question is dropped as "answer_not_found". A question without
    an answer is dropped as "no_answer". Raises UserError, with the location, for malformed JSON.
    """
    for passage, asked, place, _ in _asked(path):
        text = _field(asked, "question", str, place)
        span = _span(passage, asked, place, counts)
        if span is not None:
            yield Question(passage, *span, text)


def answered(path: Path) -> Iterator[AnsweredQuestion]:
    """The questions of a file with all their answers, which are not compared with the passage yet.

    Raises UserError, with the location, for malformed JSON.
    """
    for number, (passage, asked, place, article) in enumerate(_asked(path), 1):
        text, answers = _field(asked, "question", str, place), list[dict[str, Any]]()
        if not asked.get("is_impossible"):
            for answer, where in _items(asked, "answers", place):
                start = _field(answer, "answer_start", int, where)
                answers.append({"text": _field(answer, "text", str, where), "answer_start": start})
        yield AnsweredQuestion(passage, text, answers, number, article, place)


def _asked(path: Path) -> Iterator[tuple[str, Any, str, str]]:
    """The passage of each question, the question, its location, and its article's."""
    for article, at in _items(_parsed(path), "data", str(path)):
        for paragraph, beneath in _items(article, "paragraphs", at):
            passage = _field(paragraph, "context", str, beneath)
            _require_bounded(passage, _field(paragraph, "qas", list, beneath), beneath)
            for asked, place in _items(paragraph, "qas", beneath):
                yield passage, asked, place, at


def _span(passage: str, asked: object, place: str, counts: Counter[str]) -> tuple[int, int] | None:
    answer, where = next(_items(asked, "answers", place), (None, place))
    text = "" if answer is None else _field(answer, "text", str, where)
    if not text.strip():
        counts["no_answer"] += 1
        return None
    declared = _field(answer, "answer_start", int, where)
    exact = declared >= 0 and passage.startswith(text, declared)
    start = declared if exact else nearest(passage, text, declared)
    if start is None:
        counts["answer_not_found"] += 1
        return None
    counts["answer_moved"] += start != declared
    return start, start + len(text)


def _require_bounded(passage: str, asked: Sequence[object], where: str) -> None:
    if len(passage) > PASSAGE_CHARACTERS:
        what = f"a passage of {len(passage):,} characters, where at most {PASSAGE_CHARACTERS:,} are read"
        raise UserError(what, where=where, hint="Cut it into several paragraphs, each with its own questions.")
    if len(asked) > PASSAGE_QUESTIONS:
        what = f"{len(asked):,} questions about one passage, where at most {PASSAGE_QUESTIONS:,} are read"
        raise UserError(what, where=where, hint="Give the passage again, as a paragraph with the others.")


def nearest(passage: str, answer: str, declared: int) -> int | None:
    """The start of the answer's occurrence nearest to the declared start; of two, the earlier one."""
    declared = min(max(declared, 0), len(passage))
    around = passage.rfind(answer, 0, declared + len(answer)), passage.find(answer, declared)
    return min((start for start in around if start >= 0), key=lambda start: abs(start - declared), default=None)


def _parsed(path: Path) -> object:
    try:
        text = "\n".join(reading.lines(path))
        record = json_io.parse(text)
        json_io.require_characters(record, text)
        return record
    except json.JSONDecodeError as error:
        raise UserError(f"not JSON: {error.msg}", where=f"{path}:{error.lineno}") from None
    except ValueError as error:
        raise UserError(f"not JSON that can be read: {error}", where=str(path)) from None


def _field(holder: object, name: str, kind: type[T], where: str) -> T:
    value = holder.get(name) if isinstance(holder, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = {str: "text", int: "a whole number", list: "a list"}[kind]
        raise UserError(f"'{name}' is missing or not {expected}", where=where, hint="SQuAD's JSON is expected.")
    return value


def _items(holder: object, name: str, where: str) -> Iterator[tuple[Any, str]]:
    """The items of a list, each with its location for errors."""
    for number, item in enumerate(_field(holder, name, list, where)):
        yield item, f"{where} {name}[{number}]"


@dataclass(frozen=True)
class SquadSource(PairFilesSource):
    """Questions in one file per split, turned into pairs by the task."""

    pairing: Pairing
    _read: dict[Split, tuple[list[Question], Counter[str]]] = field(default_factory=dict, init=False, repr=False)

    def _origin(self) -> dict[str, object]:
        return {"squad": self._file_digests}

    def remarks(self, split: Split) -> Mapping[str, int]:
        return self._questions(split)[1]

    def _segments(self, split: Split) -> Iterator[Sides]:
        return (self.pairing(question) for question in self._questions(split)[0])

    def _counted(self, split: Split) -> int:
        questions, counts = self._questions(split)
        if not questions:
            report = ", ".join(f"{name}: {count:,}" for name, count in counts.items() if count) or "none at all"
            raise UserError(f"no question that has its answer in its passage ({report})", where=str(self.files[split]))
        return len(questions)

    def _questions(self, split: Split) -> tuple[list[Question], Counter[str]]:
        if split not in self._read:
            counts: Counter[str] = Counter()
            self._read[split] = list(questions(self.files[split], counts)), +counts
        return self._read[split]
