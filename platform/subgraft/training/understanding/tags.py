"""A tag of each word, predicted from the word's first piece (Devlin et al. 2019, section 5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

from torch import Tensor
from torch.nn.functional import cross_entropy

from subgraft.data.text.corpus import Corpus, labels_of
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.training.objectives.embedding_view import IGNORED
from subgraft.training.objectives.objective import pad
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, Row, TextEncoder
from subgraft.training.understanding.sequences import taken
from subgraft.training.understanding.task import LabelledTask, Predictions, Split

OUTSIDE = "O"


class Tagging(LabelledTask):
    """A tag of each word. A word that the model does not read, because the text is cut, counts as outside."""

    head = "tokens"
    metrics = ("entity F1", "entity precision", "entity recall", "tag accuracy")

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        return cls(labels_of(corpus, "tags"))

    def split(self, corpus: Corpus, name: str, encoder: TextEncoder, limit: int | None = None) -> Split:
        texts = taken(corpus.lines(name, "source"), limit)
        references: list[list[str]] = taken(corpus.annotations(name, "tags"), limit)
        places = {label: place for place, label in enumerate(self.labels)}
        examples, read = list[LabelledExample](), list[list[int | None]]()
        for (ids, ends), text, tags in zip(encoder.with_ends(texts), texts, references, strict=True):
            laid = encoder.layout.single(ids, encoder.longest)
            (begin,), (length,) = laid.starts, laid.lengths
            pieces = [None if place is None or place >= length else begin + place for place in first_pieces(text, ends)]
            target = [IGNORED] * len(laid.ids)
            for piece, tag in zip(pieces, tags, strict=True):
                if piece is not None:
                    target[piece] = places.get(tag, IGNORED)
            examples.append(LabelledExample((Row(laid.ids, laid.types, length < len(ids)),), target))
            read.append(pieces)
        return Split(examples, references, texts, read)

    def labels_of(self, examples: Sequence[LabelledExample], longest: int) -> tuple[Tensor, int]:
        del longest
        labels = pad([example.target for example in examples], IGNORED)
        return labels, int((labels != IGNORED).sum())

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        flat = logits.reshape(-1, logits.shape[-1]), batch.labels.reshape(-1)
        return cross_entropy(*flat, ignore_index=IGNORED, reduction="sum", label_smoothing=label_smoothing)

    def predictions(self, outputs: Sequence[FloatArray], split: Split) -> Predictions:
        outside = OUTSIDE if OUTSIDE in self.labels else self.labels[0]
        predicted = [
            [outside if piece is None else self.labels[int(logits[piece].argmax())] for piece in pieces]
            for logits, pieces in zip(outputs, split.details, strict=True)
        ]
        texts, wanted = ([" ".join(tags) for tags in side] for side in (predicted, split.references))
        return Predictions(predicted, split.references, texts, wanted)


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
