"""The span of a passage that answers a question, or none (Devlin et al. 2019, sections 4.2 and 4.3).

A passage that is too long is read in overlapping windows. No answer is the span of the first position, in training also
where the window does not contain the answer. A causal model has read nothing there, so it gets one more token at the
end, which stands for no answer. Limits are in characters, or fractions of the model's limit, so that a vocabulary of
short tokens is not cut off earlier.
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
from subgraft.training.understanding.sequences import BETWEEN, taken
from subgraft.training.understanding.task import LabelledTask, Split, one_row_each

# How many starts and ends are combined, as in BERT.
BEST = 20
# Characters of an answer, of models that were finetuned elsewhere.
LONGEST_ANSWER = 200
NO_ANSWER = "no answer"


class Characters(NamedTuple):
    """The places of a passage's tokens, int32 [T] each: each token starts where the one before ends."""

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
        """How many characters these tokens have."""
        return int(self.ends[tokens][-1] - self.starts[tokens][0]) if len(self.ends[tokens]) else 0


@dataclass(frozen=True)
class Window:
    """A part of a passage that the model reads at once.

    question: the number of the question.  offset: from places in the row to tokens of the passage.
    tokens: places in the row of the passage's tokens.  nowhere: the place that stands for no answer.
    """

    question: int
    offset: int
    tokens: slice
    nowhere: int

    @property
    def passage(self) -> slice:
        """The tokens of the passage."""
        return slice(self.tokens.start + self.offset, self.tokens.stop + self.offset)


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
    longest: characters of the longest answer in training, the most that are predicted.
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
        return taken(corpus.records(name, "source", "target"), limit)

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        questions, passages = ([each[at] for each in inputs] for at in (0, 1))
        encoded = encode(questions, encoder.tokenizer).sequences
        rows, windows, characters = list[Row](), list[Window](), list[Characters]()
        for number, (ids, ends) in enumerate(encoder.with_ends(passages)):
            own = Characters.of(ends)
            characters.append(own)
            for row, window in _windows(encoder, encoded[number], ids, number):
                windows.append(window)
                rows.append(row._replace(characters=own.length(window.passage) + len(questions[number])))
        texts = [BETWEEN.join(each) for each in inputs]
        owners = np.array([window.question for window in windows], dtype=np.int64)
        return Split(one_row_each(rows), texts, _Details(windows, passages, characters), owners=owners)

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
        """Logits of each token being the first of an answer, and the last [R, T, 2]; −∞ for padding."""
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
            {"answer": text, "start": start, "end": end, "score": score} if text else {"answer": None, "score": score}
            for text, start, end, score in self._best_spans(outputs, split.details)
        ]

    def _best_spans(self, outputs: Sequence[FloatArray], details: _Details) -> list[_BestSpan]:
        """The best span of each passage."""
        count = len(details.passages)
        best, nothing = [(-np.inf, 0, 0)] * count, np.full(count, np.inf)
        for logits, window in zip(outputs, details.windows, strict=True):
            number = window.question
            nothing[number] = min(nothing[number], logits[window.nowhere].sum())
            starts, ends = (side[window.passage] for side in details.characters[number])
            score, first, last = _best_span(logits[window.tokens], starts, ends, self.longest)
            begin = window.passage.start
            best[number] = max(best[number], (score, first + begin, last + begin), key=lambda span: span[0])
        spans = list[_BestSpan]()
        for (score, first, last), none, passage, (starts, ends) in zip(
            best, nothing.tolist(), details.passages, details.characters, strict=True
        ):
            if score == -np.inf:  # of a passage without tokens
                spans.append(_BestSpan("", 0, 0, 0.0))
                continue
            if not self.answerable and score <= none:
                spans.append(_BestSpan("", 0, 0, score - none))
                continue
            text = passage[starts[first] : ends[last]]
            start = int(starts[first]) + len(text) - len(text.lstrip())
            spans.append(_BestSpan(text.strip(), start, start + len(text.strip()), score - none))
        return spans


def _windows(
    encoder: TextEncoder, question: list[int], passage: list[int], number: int
) -> Iterator[tuple[Row, Window]]:
    """The rows of a question with overlapping parts of its passage, each of which starts in the middle of the one
    before.

    A question takes no more than half of a row.
    """
    closing = encoder.layout.separator if encoder.reads_forwards else ()
    longest = min(encoder.longest, encoder.layout.longest) - len(closing)
    whole = encoder.layout.room(2, longest)
    asked = question[: max(whole // 2, whole - len(passage))]
    room = max(1, whole - len(asked))
    step = max(1, room // 2)
    for begin in range(0, max(1, len(passage) - room + step), step):
        laid = encoder.layout.pair(asked, passage[begin : begin + room], longest)
        (_, start), (_, length) = laid.starts, laid.lengths
        row = Row.of(laid._replace(ids=[*laid.ids, *closing], types=[*laid.types, *[0] * len(closing)]), 0)
        nowhere = len(row.tokens) - 1 if closing or encoder.layout.last_segment else 0
        window = Window(number, begin - start, slice(start, start + length), nowhere)
        yield row._replace(cut=len(asked) < len(question)), window


def _target(wanted: tuple[int, int] | None, window: Window) -> tuple[int, int]:
    """The places of an answer's first and last token in a window's row."""
    if wanted is not None:
        first, last = (token - window.offset for token in wanted)
        if window.tokens.start <= first <= last < window.tokens.stop:
            return first, last
    return window.nowhere, window.nowhere


def _best_span(logits: FloatArray, starts: np.ndarray, ends: np.ndarray, longest: int) -> tuple[float, int, int]:
    """The best score of a span of at most `longest` characters, and its first and last token.

    logits: of the tokens of a window's passage [T, 2].  starts, ends: of these tokens in the passage [T].
    """
    if not len(logits):
        return -np.inf, 0, 0
    first, last = (np.argsort(-side, kind="stable")[:BEST] for side in logits.T)
    # A token may have the space before it.
    length = ends[last][None, :] - starts[first][:, None] - 1
    allowed = (last[None, :] >= first[:, None]) & (length <= longest)
    scores = np.where(allowed, logits[first, 0][:, None] + logits[last, 1][None, :], -np.inf)
    row, column = np.unravel_index(int(scores.argmax()), scores.shape)
    return float(scores[row, column]), int(first[row]), int(last[column])
