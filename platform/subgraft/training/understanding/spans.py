"""The span of a passage that answers a question, or none (Devlin et al. 2019, sections 4.2 and 4.3).

A passage that is too long is read in overlapping windows. No answer is the span of the first position, in training
also where the window does not contain the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, Row, TextEncoder, model_inputs
from subgraft.training.understanding.sequences import BETWEEN, taken
from subgraft.training.understanding.task import LabelledTask, Split, one_row_each

# BERT's limits: tokens of a question, tokens of an answer, and starts and ends that are combined.
LONGEST_QUESTION, LONGEST_ANSWER, BEST = 64, 30, 20
# The first position, which stands for no answer.
NOWHERE = 0
NO_ANSWER = "no answer"


class Characters(NamedTuple):
    """Where tokens of a passage are in it: each starts where the one before ends."""

    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, ends: Sequence[int]) -> Self:
        return cls([0, *ends[:-1]], list(ends))

    def tokens(self, span: tuple[int, int]) -> tuple[int, int]:
        """The first and the last token that have characters of a span [start, end)."""
        start, end = span
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left")) - 1
        return first, max(first, last)


@dataclass(frozen=True)
class Window:
    """A part of a passage that the model reads at once.

    question: the number of the question.  offset: from places in the row to tokens of the passage.
    tokens: places in the row of the passage's tokens [first, end).
    """

    question: int
    offset: int
    tokens: range


class _Details(NamedTuple):
    windows: list[Window]
    passages: list[str]
    characters: list[Characters]


class _BestSpan(NamedTuple):
    """An answer at [start, end) of its passage, empty for none; and how far its logits are above those of none."""

    text: str
    start: int
    end: int
    score: float


class SpanExtraction(LabelledTask):
    """The answers of questions on passages.

    answerable: whether every training question has an answer; if so, an answer is always predicted.
    """

    head = "span"
    metrics = ("token F1", "exact match")

    def __init__(self, answerable: bool = True) -> None:
        super().__init__()
        self.answerable = answerable

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        return cls(all(corpus.annotations("train", "answers")))

    @classmethod
    def of_model(cls, labels: Sequence[str], settings: Mapping[str, Any]) -> Self:
        return cls(settings.get("answerable") is True)

    @property
    def settings(self) -> dict[str, Any]:
        return {"answerable": self.answerable}

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        return taken(corpus.records(name, "source", "target"), limit)

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        questions, passages = ([each[at] for each in inputs] for at in (0, 1))
        encoded = encoder.tokenizer.encode_batch(questions)
        rows, windows, characters = list[Row](), list[Window](), list[Characters]()
        for number, (question, (ids, ends)) in enumerate(zip(encoded, encoder.with_ends(passages), strict=True)):
            characters.append(Characters.of(ends))
            for row, window in _windows(encoder, question[:LONGEST_QUESTION], ids, number):
                windows.append(window)
                rows.append(row)
        texts = [BETWEEN.join(each) for each in inputs]
        return Split(one_row_each(rows), texts, _Details(windows, passages, characters))

    def labelled(self, read: Split, corpus: Corpus, name: str, limit: int | None = None) -> Split:
        answers, details = taken(corpus.annotations(name, "answers"), limit), read.details
        wanted = [
            characters.tokens(tuple(spans[0])) if spans else None
            for characters, spans in zip(details.characters, answers, strict=True)
        ]
        references = [
            [passage[start:end] for start, end in spans]
            for passage, spans in zip(details.passages, answers, strict=True)
        ]
        return read.with_targets((_target(wanted[each.question], each) for each in details.windows), references)

    def labels_of(self, examples: Sequence[LabelledExample], longest: int) -> tuple[Tensor, int]:
        del longest
        return torch.tensor([example.target for example in examples]), len(examples)

    def logits(self, model: PreTrainedModel, batch: LabelledBatch) -> Tensor:
        """Of each token, whether it is the first of an answer, and the last [R, T, 2]; −∞ for padding."""
        outputs = model(**model_inputs(model, batch))
        logits = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1).float()
        return logits.masked_fill(batch.attention_mask[..., None] == 0, -torch.inf)

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        """The mean of the two cross entropies."""
        del label_smoothing  # over places, among them padding
        both = [cross_entropy(logits[..., end], batch.labels[:, end], reduction="sum") for end in (0, 1)]
        return (both[0] + both[1]) / 2

    def predicted(self, outputs: Sequence[FloatArray], split: Split) -> list[str]:
        return [each.text for each in self._best_spans(outputs, split.details)]

    def in_words(self, predicted: Any, split: Split) -> list[str]:
        first = (each if isinstance(each, str) else next(iter(each), "") for each in predicted)
        return [text or NO_ANSWER for text in first]

    def facts(self, outputs: Sequence[FloatArray], split: Split) -> list[dict[str, Any]]:
        return [
            {"answer": text or None, "start": start, "end": end, "score": score}
            if text
            else {"answer": None, "score": score}
            for text, start, end, score in self._best_spans(outputs, split.details)
        ]

    def _best_spans(self, outputs: Sequence[FloatArray], details: _Details) -> list[_BestSpan]:
        """The best span of each passage."""
        count = len(details.passages)
        best, nothing = [(-np.inf, 0, 0)] * count, np.full(count, np.inf)
        for logits, window in zip(outputs, details.windows, strict=True):
            number = window.question
            nothing[number] = min(nothing[number], logits[NOWHERE].sum())
            best[number] = max(best[number], _best_span(logits, window), key=lambda span: span[0])
        spans = list[_BestSpan]()
        for (score, first, last), none, passage, (starts, ends) in zip(
            best, nothing.tolist(), details.passages, details.characters, strict=True
        ):
            if score == -np.inf or not (self.answerable or score > none):
                spans.append(_BestSpan("", 0, 0, score - none))
                continue
            text = passage[starts[first] : ends[last]]
            start = starts[first] + len(text) - len(text.lstrip())
            spans.append(_BestSpan(text.strip(), start, start + len(text.strip()), score - none))
        return spans


def _windows(
    encoder: TextEncoder, question: list[int], passage: list[int], number: int
) -> Iterator[tuple[Row, Window]]:
    """The rows of a question with overlapping parts of its passage, each half as far on as it is long."""
    room = max(1, encoder.layout.room(2, encoder.longest) - len(question))
    step = max(1, room // 2)
    for begin in range(0, max(1, len(passage) - room + step), step):
        part = passage[begin : begin + room]
        laid = encoder.layout.pair(question, part, encoder.longest)
        start = laid.starts[1]
        yield Row(laid.ids, laid.types), Window(number, begin - start, range(start, start + len(part)))


def _target(wanted: tuple[int, int] | None, window: Window) -> tuple[int, int]:
    """The places of an answer's first and last token in a window's row."""
    if wanted is not None:
        first, last = (token - window.offset for token in wanted)
        if first in window.tokens and last in window.tokens:
            return first, last
    return NOWHERE, NOWHERE


def _best_span(logits: FloatArray, window: Window) -> tuple[float, int, int]:
    """The best score of a span of the window's passage, and its tokens in the passage."""
    starts, ends = (logits[window.tokens.start : window.tokens.stop, end] for end in (0, 1))
    if not len(starts):
        return -np.inf, 0, 0
    first, last = (np.argsort(-side, kind="stable")[:BEST] for side in (starts, ends))
    length = last[None, :] - first[:, None]
    scores = np.where((length >= 0) & (length < LONGEST_ANSWER), starts[first][:, None] + ends[last][None, :], -np.inf)
    row, column = np.unravel_index(int(scores.argmax()), scores.shape)
    place = window.tokens.start + window.offset
    return float(scores[row, column]), int(first[row]) + place, int(last[column]) + place
