"""The span of a passage that answers a question, or none (Devlin et al. 2019, sections 4.2 and 4.3).

A passage that is too long is read in overlapping windows. "No answer" is predicted as the span of the first position,
which is also the target of training windows that do not contain the answer. A causal model has read nothing at that
position, so its rows end with one more token, which stands for "no answer". Limits are in characters or in fractions of
the model's limit, so that passages in short tokens are not truncated earlier than others.
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
from subgraft.data.text.encoded import encode
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.training.understanding.input_forms import PASSAGE, InputForm
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, Row, TextEncoder, model_inputs
from subgraft.training.understanding.sequences import BETWEEN, take_first
from subgraft.training.understanding.task import LabelledTask, Split, one_row_each

# The number of starts and of ends that are combined, as in BERT.
BEST = 20
# The maximum length of an answer, in characters, of models that were finetuned elsewhere.
LONGEST_ANSWER = 200
NO_ANSWER = "no answer"


class Characters(NamedTuple):
    """The bounds of a passage's tokens in characters, int32 [T] each. A token starts where the one before it ends."""

    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, ends: Sequence[int]) -> Self:
        return cls(np.array([0, *ends][:-1], dtype=np.int32), np.array(ends, dtype=np.int32))

    def tokens(self, span: tuple[int, int]) -> tuple[int, int]:
        """The first and the last token that have characters of a span [start, end)."""
        start, end = span
        first = int(np.searchsorted(self.ends, start, side="right"))
        last = int(np.searchsorted(self.starts, end, side="left")) - 1
        return first, max(first, last)

    def length(self, tokens: slice) -> int:
        """The number of characters of these tokens."""
        return int(self.ends[tokens][-1] - self.starts[tokens][0]) if len(self.ends[tokens]) else 0


@dataclass(frozen=True)
class Window:
    """A part of a passage that the model reads at once.

    Attributes:
        question: The index of the question.
        offset: The difference between a token's index in the passage and its position in the row.
        tokens: The positions of the passage's tokens in the row.
        no_answer_position: The position in the row that stands for no answer.
    """

    question: int
    offset: int
    tokens: slice
    no_answer_position: int

    @property
    def passage(self) -> slice:
        """The tokens of the passage."""
        return slice(self.tokens.start + self.offset, self.tokens.stop + self.offset)


class _Details(NamedTuple):
    windows: list[Window]
    passages: list[str]
    characters: list[Characters]


class _BestSpan(NamedTuple):
    """An answer at [start, end) of its passage, empty for no answer. score: its logits minus those of no answer."""

    text: str
    start: int
    end: int
    score: float


class SpanExtraction(LabelledTask):
    """Answers to questions about passages.

    Attributes:
        answerable: Whether every training question has an answer; if so, an answer is always predicted.
        longest: The length of the longest training answer in characters, which predictions do not exceed.
    """

    head = "span"
    predicts = "answer"
    metrics = ("token F1", "exact match")
    form = InputForm(("question", PASSAGE))

    def __init__(self, answerable: bool, longest: int = LONGEST_ANSWER) -> None:
        super().__init__()
        self.answerable, self.longest = answerable, longest

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        answerable, longest = True, 0
        for spans in corpus.annotations("train", "answers"):
            answerable = answerable and bool(spans)
            longest = max([longest, *(end - start for start, end in spans)])
        return cls(answerable, longest)

    @classmethod
    def of_model(cls, labels: Sequence[str], settings: Mapping[str, Any]) -> Self:
        longest = settings.get("longest_answer")
        return cls(settings.get("answerable") is True, longest if type(longest) is int else LONGEST_ANSWER)

    @property
    def settings(self) -> dict[str, Any]:
        return {"answerable": self.answerable, "longest_answer": self.longest}

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        return take_first(corpus.records(name, "source", "target"), limit)

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        questions, passages = ([each[side] for each in inputs] for side in (0, 1))
        encoded = encode(questions, encoder.tokenizer).sequences
        rows, windows, characters = list[Row](), list[Window](), list[Characters]()
        for number, (ids, ends) in enumerate(encoder.with_ends(passages)):
            of_passage = Characters.of(ends)
            characters.append(of_passage)
            for row, window in _windows(encoder, encoded[number], ids, number):
                windows.append(window)
                rows.append(row._replace(characters=of_passage.length(window.passage) + len(questions[number])))
        texts = [BETWEEN.join(each) for each in inputs]
        owners = np.array([window.question for window in windows], dtype=np.int64)
        return Split(one_row_each(rows), texts, _Details(windows, passages, characters), owners=owners)

    def labelled(self, read: Split, corpus: Corpus, name: str, limit: int | None = None) -> Split:
        answers, details = take_first(corpus.annotations(name, "answers"), limit), read.details
        answer_tokens = [
            characters.tokens(tuple(spans[0])) if spans else None
            for characters, spans in zip(details.characters, answers, strict=True)
        ]
        references = [
            [passage[start:end] for start, end in spans]
            for passage, spans in zip(details.passages, answers, strict=True)
        ]
        return read.with_targets((_target(answer_tokens[each.question], each) for each in details.windows), references)

    def labels_of(self, examples: Sequence[LabelledExample]) -> tuple[Tensor, int]:
        return torch.tensor([example.target for example in examples]), len(examples)

    def logits(self, model: PreTrainedModel, batch: LabelledBatch) -> Tensor:
        """Logits of each token as the first and as the last token of the answer [R, T, 2]; −∞ for padding."""
        outputs = model(**model_inputs(model, batch))
        logits = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1).float()
        return logits.masked_fill(batch.attention_mask[..., None] == 0, -torch.inf)

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        """The mean of the two cross entropies."""
        del label_smoothing  # it would also smooth over padding
        both = [cross_entropy(logits[..., end], batch.labels[:, end], reduction="sum") for end in (0, 1)]
        return (both[0] + both[1]) / 2

    def predicted(self, outputs: Sequence[FloatArray], split: Split) -> list[str]:
        return [each.text for each in self._best_spans(outputs, split.details)]

    def in_words(self, predicted: Any, split: Split) -> list[str]:
        first = (each if isinstance(each, str) else next(iter(each), "") for each in predicted)
        return [text or NO_ANSWER for text in first]

    def facts(self, outputs: Sequence[FloatArray], split: Split) -> list[dict[str, Any]]:
        return [
            {"answer": text, "start": start, "end": end, "score": score} if text else {"answer": None, "score": score}
            for text, start, end, score in self._best_spans(outputs, split.details)
        ]

    def _best_spans(self, outputs: Sequence[FloatArray], details: _Details) -> list[_BestSpan]:
        """The best span of each passage."""
        count = len(details.passages)
        best, no_answer = [(-np.inf, 0, 0)] * count, np.full(count, np.inf)
        for logits, window in zip(outputs, details.windows, strict=True):
            number = window.question
            no_answer[number] = min(no_answer[number], logits[window.no_answer_position].sum())
            starts, ends = (side[window.passage] for side in details.characters[number])
            score, first, last = _best_span(logits[window.tokens], starts, ends, self.longest)
            begin = window.passage.start
            best[number] = max(best[number], (score, first + begin, last + begin), key=lambda span: span[0])
        spans = list[_BestSpan]()
        for (score, first, last), no_answer_score, passage, (starts, ends) in zip(
            best, no_answer.tolist(), details.passages, details.characters, strict=True
        ):
            if score == -np.inf:  # the passage has no tokens
                spans.append(_BestSpan("", 0, 0, 0.0))
                continue
            if not self.answerable and score <= no_answer_score:
                spans.append(_BestSpan("", 0, 0, score - no_answer_score))
                continue
            text = passage[starts[first] : ends[last]]
            start = int(starts[first]) + len(text) - len(text.lstrip())
            spans.append(_BestSpan(text.strip(), start, start + len(text.strip()), score - no_answer_score))
        return spans


def _windows(
    encoder: TextEncoder, question: list[int], passage: list[int], number: int
) -> Iterator[tuple[Row, Window]]:
    """The rows of a question with overlapping windows of its passage, each starting in the middle of the previous one.

    A question takes at most half of a row.
    """
    closing = encoder.layout.separator if encoder.reads_forwards else ()
    longest = min(encoder.longest, encoder.layout.longest) - len(closing)
    capacity = encoder.layout.room(2, longest)
    question_tokens = question[: max(capacity // 2, capacity - len(passage))]
    room = max(1, capacity - len(question_tokens))
    step = max(1, room // 2)
    for begin in range(0, max(1, len(passage) - room + step), step):
        laid = encoder.layout.pair(question_tokens, passage[begin : begin + room], longest)
        (_, start), (_, length) = laid.starts, laid.lengths
        row = Row.of(laid._replace(ids=[*laid.ids, *closing], types=[*laid.types, *[0] * len(closing)]), 0)
        no_answer_position = len(row.tokens) - 1 if closing or encoder.layout.last_segment else 0
        window = Window(number, begin - start, slice(start, start + length), no_answer_position)
        yield row._replace(truncated=len(question_tokens) < len(question)), window


def _target(answer: tuple[int, int] | None, window: Window) -> tuple[int, int]:
    """The positions of the answer's first and last token in a window's row."""
    if answer is not None:
        first, last = (token - window.offset for token in answer)
        if window.tokens.start <= first <= last < window.tokens.stop:
            return first, last
    return window.no_answer_position, window.no_answer_position


def _best_span(logits: FloatArray, starts: np.ndarray, ends: np.ndarray, longest: int) -> tuple[float, int, int]:
    """The best span of at most `longest` characters: its score, and its first and last token.

    Args:
        logits: the logits of the passage's tokens in a window [T, 2].
        starts: the start of each of these tokens in the passage [T].
        ends: the end of each of these tokens in the passage [T].
        longest: the maximum length of a span in characters.
    """
    if not len(logits):
        return -np.inf, 0, 0
    first, last = (np.argsort(-side, kind="stable")[:BEST] for side in logits.T)
    # A token may include the space before it.
    length = ends[last][None, :] - starts[first][:, None] - 1
    allowed = (last[None, :] >= first[:, None]) & (length <= longest)
    scores = np.where(allowed, logits[first, 0][:, None] + logits[last, 1][None, :], -np.inf)
    row, column = np.unravel_index(int(scores.argmax()), scores.shape)
    return float(scores[row, column]), int(first[row]), int(last[column])
