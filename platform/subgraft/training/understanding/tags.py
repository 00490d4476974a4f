"""A tag of each word, predicted from the word's first piece (Devlin et al. 2019, section 5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

from torch import Tensor
from torch.nn.functional import cross_entropy

from subgraft.data.text.corpus import Corpus, labels_of
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.training.objectives.embedding_view import IGNORED
from subgraft.training.objectives.objective import pad
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, Row, TextEncoder
from subgraft.training.understanding.sequences import taken
from subgraft.training.understanding.task import LabelledTask, Split, one_row_each

OUTSIDE = "O"


class Tagging(LabelledTask):
    """A tag of each word. A word that the model does not read, because the text is cut, counts as outside."""

    head = "tokens"
    metrics = ("entity F1", "entity precision", "entity recall", "tag accuracy")

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        return cls(labels_of(corpus, "tags"))

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        return taken(corpus.lines(name, "source"), limit)

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        texts: list[str] = list(inputs)
        rows, read = list[Row](), list[list[int | None]]()
        for (ids, ends), text in zip(encoder.with_ends(texts), texts, strict=True):
            laid = encoder.layout.single(ids, encoder.longest)
            (begin,), (length,) = laid.starts, laid.lengths
            places = first_pieces(text, ends) if text else ()
            pieces = [None if place is None or place >= length else begin + place for place in places]
            rows.append(Row(laid.ids, laid.types, length < len(ids)))
            read.append(pieces)
        return Split(one_row_each(rows), texts, read)

    def labelled(self, read: Split, corpus: Corpus, name: str, limit: int | None = None) -> Split:
        references: list[list[str]] = taken(corpus.annotations(name, "tags"), limit)
        places = {label: place for place, label in enumerate(self.labels)}
        targets = list[list[int]]()
        for example, pieces, tags in zip(read.examples, read.details, references, strict=True):
            target = [IGNORED] * len(example.rows[0].tokens)
            for piece, tag in zip(pieces, tags, strict=True):
                if piece is not None:
                    target[piece] = places.get(tag, IGNORED)
            targets.append(target)
        return read.with_targets(targets, references)

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


def first_pieces(text: str, ends: Sequence[int]) -> Iterator[int | None]:
    """The place among the tokens of each word's first piece; None for a word of which no token has a character.

    text: words between single spaces.  ends: where each token ends in it, never falling.
    """
    token, at = 0, 0
    for word in text.split(" "):
        while token < len(ends) and ends[token] <= at:
            token += 1
        before = ends[token - 1] if token else 0
        yield token if token < len(ends) and before < at + len(word) else None
        at += len(word) + 1
