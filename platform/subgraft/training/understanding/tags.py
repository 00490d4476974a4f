"""A tag of each word, predicted from the word's first piece (Devlin et al. 2019, section 5.3).

A causal model has not read the complete word at its first piece, so it predicts the tag from the last piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from subgraft.data.text.corpus import Corpus, labels_of
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.training.objectives.embedding_view import IGNORED
from subgraft.training.objectives.objective import pad
from subgraft.training.understanding.input_forms import InputForm
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, Row, TextEncoder
from subgraft.training.understanding.sequences import take_first
from subgraft.training.understanding.task import LabelledTask, Split, one_row_each

OUTSIDE = "O"
NO_PIECE = -1


class Tagging(LabelledTask):
    """A tag of each word. A word that the model does not read, because the text is cut, counts as outside."""

    head = "tokens"
    predicts = "tags"
    metrics = ("entity F1", "entity precision", "entity recall", "tag accuracy")
    form = InputForm(("text",), words=True)

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        return cls(labels_of(corpus, "tags"))

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        return take_first(corpus.lines(name, "source"), limit)

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        texts: list[str] = list(inputs)
        rows, read = list[Row](), list[list[int | None]]()
        for (ids, ends), text in zip(encoder.with_ends(texts), texts, strict=True):
            laid = encoder.layout.single(ids, encoder.longest)
            (begin,), (length,) = laid.starts, laid.lengths
            words = pieces_of_words(text, ends) if text else ()
            places = (last if encoder.reads_forwards else first for first, last in words)
            pieces = [None if place == NO_PIECE or place >= length else begin + place for place in places]
            rows.append(Row.of(laid, len(text), length < len(ids)))
            read.append(pieces)
        return Split(one_row_each(rows), texts, read)

    def labelled(self, read: Split, corpus: Corpus, name: str, limit: int | None = None) -> Split:
        references: list[list[str]] = take_first(corpus.annotations(name, "tags"), limit)
        ids = {label: number for number, label in enumerate(self.labels)}
        targets = list[np.ndarray]()
        for example, pieces, tags in zip(read.examples, read.details, references, strict=True):
            target = np.full(len(example.rows[0].tokens), IGNORED, dtype=np.int32)
            for piece, tag in zip(pieces, tags, strict=True):
                if piece is not None:
                    target[piece] = ids.get(tag, IGNORED)
            targets.append(target)
        return read.with_targets(targets, references)

    def is_trainable(self, example: LabelledExample) -> bool:
        return bool((example.target != IGNORED).any())

    def labels_of(self, examples: Sequence[LabelledExample], longest: int) -> tuple[Tensor, int]:
        del longest
        labels = pad([example.target for example in examples], IGNORED)
        return labels, int((labels != IGNORED).sum())

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        flat = logits.reshape(-1, logits.shape[-1]), batch.labels.reshape(-1)
        return cross_entropy(*flat, ignore_index=IGNORED, reduction="sum", label_smoothing=label_smoothing)

    def predicted(self, outputs: Sequence[FloatArray], split: Split) -> list[list[str]]:
        outside = OUTSIDE if OUTSIDE in self.labels else self.labels[0]
        return [
            [outside if piece is None else self.labels[int(logits[piece].argmax())] for piece in pieces]
            for logits, pieces in zip(outputs, split.details, strict=True)
        ]

    def in_words(self, predicted: Any, split: Split) -> list[str]:
        return [" ".join(tags) for tags in predicted]

    def facts(self, outputs: Sequence[FloatArray], split: Split) -> list[dict[str, Any]]:
        tagged = zip(split.texts, self.predicted(outputs, split), strict=True)
        return [{"words": text.split(), "tags": tags} for text, tags in tagged]


def pieces_of_words(text: str, ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The indices of each word's first and last token; NO_PIECE for a word without a token.

    Args:
        text: words separated by single spaces.
        ends: the end of each token in the text, never decreasing.
    """
    token, word_start = 0, 0
    for word in text.split(" "):
        end = word_start + len(word)
        while token < len(ends) and ends[token] <= word_start:
            token += 1
        before = ends[token - 1] if token else 0
        first = last = token if token < len(ends) and before < end else NO_PIECE
        while first != NO_PIECE and last + 1 < len(ends) and ends[last + 1] <= end:
            last += 1
        yield first, last
        word_start = end + 1
