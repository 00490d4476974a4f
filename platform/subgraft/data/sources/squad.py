"""Questions about passages in SQuAD's JSON (Rajpurkar et al. 2016): version 1.1, and 2.0's where there is an answer."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.base.security.limits import PASSAGE_CHARACTERS, PASSAGE_QUESTIONS
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.kind import Pairing, Question, Request, SourceKind
from subgraft.data.sources.paths import one_file_per_split
from subgraft.data.sources.resolved_corpus import PairFilesSource, ResolvedSource
from subgraft.data.text import reading
from subgraft.data.text.fields import Sides, pair_fields

T = TypeVar("T")


class Squad(Settings):
    """squad: questions in SQuAD's JSON format: a folder with {train,dev,test}.json[.gz], or a path per split."""

    squad: str | dict[Split, str] | None = None


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question with all its answers, each with `text` and `answer_start`; none if the passage does not answer it.

    Attributes:
        number: Its number in the file, from 1.
        article: The location of its article.
        where: Its location.
    """

    passage: str
    text: str
    answers: list[dict[str, Any]]
    number: int
    article: str
    where: str


def questions(path: Path, counts: Counter[str]) -> Iterator[Question]:
    """The questions of a file, plain or gzipped, each with its first answer (others are from other annotators).

    An answer's start is checked against the passage. If it is wrong, the nearest occurrence of the answer is used and
    counted as "answer_moved"; without any occurrence the question is dropped as "answer_not_found". A question without
    an answer is dropped as "no_answer". Raises UserError, with the location, for malformed JSON.
    """
    for passage, raw, where, _ in _raw_questions(path):
        text = _field(raw, "question", str, where)
        span = _span(passage, raw, where, counts)
        if span is not None:
            yield Question(passage, *span, text)


def answered_questions(path: Path) -> Iterator[AnsweredQuestion]:
    """The questions of a file with all their answers, which have not been compared with the passage.

    Raises UserError, with the location, for malformed JSON.
    """
    for number, (passage, raw, where_question, article) in enumerate(_raw_questions(path), 1):
        text, answers = _field(raw, "question", str, where_question), list[dict[str, Any]]()
        if not raw.get("is_impossible"):
            for answer, where in _items(raw, "answers", where_question):
                start = _field(answer, "answer_start", int, where)
                answers.append({"text": _field(answer, "text", str, where), "answer_start": start})
        yield AnsweredQuestion(passage, text, answers, number, article, where_question)


def _raw_questions(path: Path) -> Iterator[tuple[str, Any, str, str]]:
    """The passage of each question, the question, its location, and its article's."""
    for article, where_article in _items(_parsed(path), "data", str(path)):
        for paragraph, where_paragraph in _items(article, "paragraphs", where_article):
            passage = _field(paragraph, "context", str, where_paragraph)
            _require_bounded(passage, _field(paragraph, "qas", list, where_paragraph), where_paragraph)
            for raw, where in _items(paragraph, "qas", where_paragraph):
                yield passage, raw, where, where_article


def _span(passage: str, raw: object, where_question: str, counts: Counter[str]) -> tuple[int, int] | None:
    answer, where = next(_items(raw, "answers", where_question), (None, where_question))
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


def _require_bounded(passage: str, questions: Sequence[object], where: str) -> None:
    if len(passage) > PASSAGE_CHARACTERS:
        what = f"a passage of {len(passage):,} characters, where at most {PASSAGE_CHARACTERS:,} are read"
        raise UserError(what, where=where, hint="Split it into several paragraphs, each with its own questions.")
    if len(questions) > PASSAGE_QUESTIONS:
        what = f"{len(questions):,} questions about one passage, where at most {PASSAGE_QUESTIONS:,} are read"
        raise UserError(what, where=where, hint="Repeat the passage as another paragraph, with the other questions.")


def nearest(passage: str, answer: str, declared: int) -> int | None:
    """The start of the answer's occurrence nearest to the declared start; of two, the earlier one."""
    declared = min(max(declared, 0), len(passage))
    occurrences = passage.rfind(answer, 0, declared + len(answer)), passage.find(answer, declared)
    return min((start for start in occurrences if start >= 0), key=lambda start: abs(start - declared), default=None)


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


def _field(parent: object, name: str, kind: type[T], where: str) -> T:
    value = parent.get(name) if isinstance(parent, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = {str: "text", int: "a whole number", list: "a list"}[kind]
        raise UserError(f"'{name}' is missing or not {expected}", where=where, hint="SQuAD's JSON is expected.")
    return value


def _items(parent: object, name: str, where: str) -> Iterator[tuple[Any, str]]:
    """The items of a list, each with its location for errors."""
    for number, item in enumerate(_field(parent, name, list, where)):
        yield item, f"{where} {name}[{number}]"


@dataclass(frozen=True)
class SquadSource(PairFilesSource):
    """Questions in one file per split, turned into pairs by the task."""

    pairing: Pairing
    _cache: dict[Split, tuple[list[Question], Counter[str]]] = field(default_factory=dict, init=False, repr=False)

    def _origin(self) -> dict[str, object]:
        return {"squad": self._file_digests}

    def remarks(self, split: Split) -> Mapping[str, int]:
        return self._questions(split)[1]

    def _segments(self, split: Split) -> Iterator[Sides]:
        return (self.pairing(question) for question in self._questions(split)[0])

    def _count_split(self, split: Split) -> int:
        questions, counts = self._questions(split)
        if not questions:
            report = ", ".join(f"{name}: {count:,}" for name, count in counts.items() if count) or "none at all"
            raise UserError(f"no question that has its answer in its passage ({report})", where=str(self.files[split]))
        return len(questions)

    def _questions(self, split: Split) -> tuple[list[Question], Counter[str]]:
        if split not in self._cache:
            counts: Counter[str] = Counter()
            self._cache[split] = list(questions(self.files[split], counts)), +counts
        return self._cache[split]


def _resolve(request: Request) -> ResolvedSource:
    if request.pairing is None:
        raise UserError("squad contains questions, which only `task: question-generation` reads", where="corpora")
    files = one_file_per_split(request.settings, "json", request.base)
    return SquadSource(pair_fields(request.pair, two=True), request.limit, files, request.pairing)


SQUAD = SourceKind(
    name="squad",
    fields=Squad,
    resolve=_resolve,
    in_together=False,
    of_questions=True,
    one_text=lambda settings: False,
)
