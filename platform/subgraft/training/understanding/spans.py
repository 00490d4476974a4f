"""The span of a passage that answers a question, or none (Devlin et al. 2019, sections 4.2 and 4.3).

A passage that is too long is read in overlapping windows. No answer is the span of the first position, in training
also where the window does not contain the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, Row, TextEncoder, model_inputs
from subgraft.training.understanding.sequences import BETWEEN, taken
from subgraft.training.understanding.task import LabelledTask, Predictions, Split

# BERT's limits: tokens of a question, tokens of an answer, and starts and ends that are combined.
LONGEST_QUESTION, LONGEST_ANSWER, BEST = 64, 30, 20
# The first position, which stands for no answer.
NOWHERE = 0


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

    def split(self, corpus: Corpus, name: str, encoder: TextEncoder, limit: int | None = None) -> Split:
        questions, passages = (taken(corpus.lines(name, side), limit) for side in ("source", "target"))
        answers = taken(corpus.annotations(name, "answers"), limit)
        encoded = encoder.tokenizer.encode_batch(questions)
        examples, windows, characters = list[LabelledExample](), list[Window](), list[Characters]()
        for number, (question, (ids, ends)) in enumerate(zip(encoded, encoder.with_ends(passages), strict=True)):
            characters.append(Characters.of(ends))
            wanted = characters[-1].tokens(tuple(answers[number][0])) if answers[number] else None
            for row, window in _windows(encoder, question[:LONGEST_QUESTION], ids, number):
                windows.append(window)
                examples.append(LabelledExample((row,), _target(wanted, window)))
        references = [
            [passage[start:end] for start, end in spans] for passage, spans in zip(passages, answers, strict=True)
        ]
        texts = [question + BETWEEN + passage for question, passage in zip(questions, passages, strict=True)]
        return Split(examples, references, texts, _Details(windows, passages, characters))

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

    def predictions(self, outputs: Sequence[FloatArray], split: Split) -> Predictions:
        details: _Details = split.details
        count = len(details.passages)
        best, nothing = [(-np.inf, "")] * count, np.full(count, np.inf)
        for logits, window in zip(outputs, details.windows, strict=True):
            number = window.question
            nothing[number] = min(nothing[number], logits[NOWHERE].sum())
            score, first, last = _best_span(logits, window)
            if score > best[number][0]:
                starts, ends = details.characters[number]
                text = details.passages[number][starts[first] : ends[last]].strip()
                best[number] = (score, text)
        predicted = [
            text if self.answerable or score > none else "" for (score, text), none in zip(best, nothing, strict=True)
        ]
        shown = [answers[0] if answers else "" for answers in split.references]
        texts, wanted = ([text or "no answer" for text in side] for side in (predicted, shown))
        return Predictions(predicted, split.references, texts, wanted)


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
