"""A tag of each word, predicted from the word's first piece (Devlin et al. 2019, section 5.3).

A causal model has not read the complete word at its first piece, so it predicts the tag from the last piece; unless it
was finetuned elsewhere, because transformers' scripts label the first piece in all models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from torch import Tensor
from torch.nn.functional import cross_entropy

from subgraft.data.text.corpus import Corpus, labels_of
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import pad
from subgraft.training.understanding.input_forms import InputForm
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, Row, TextEncoder
from subgraft.training.understanding.sequences import take_first
from subgraft.training.understanding.task import LabelledTask, Split, one_row_each

OUTSIDE = "O"


class Tagging(LabelledTask):
    """A tag of each word. A word that the model does not read, because the text is truncated, counts as outside."""

    head = "tokens"
    predicts = "tags"
    metrics = ("entity F1", "entity precision", "entity recall", "tag accuracy")
    form = InputForm(("text",), words=True)
    # Whether causal models predict a word's tag from its last piece.
    at_last_piece = True

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        return cls(labels_of(corpus, "tags"))

    @classmethod
    def of_model(cls, labels: Sequence[str], settings: Mapping[str, Any]) -> Self:
        task = cls(labels)
        task.at_last_piece = bool(settings)
        return task

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        return take_first(corpus.lines(name, "source"), limit)

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        texts: list[str] = list(inputs)
        rows, read = list[Row](), list[list[int | None]]()
        for (ids, words), text in zip(encoder.with_words(texts), texts, strict=True):
            laid = encoder.layout.single(ids, encoder.longest)
            (begin,), (length,) = laid.starts, laid.lengths
            # Of each word with tokens; others have none because the vocabulary removes their characters.
            tokens = list(enumerate(words, begin))
            if not (encoder.reads_forwards and self.at_last_piece):
                tokens.reverse()
            places = {word: place for place, word in tokens}
            readable = {word: place for word, place in places.items() if place < begin + length}
            rows.append(Row.of(laid, len(text), length < len(ids)))
            read.append([readable.get(word) for word in range(text.count(" ") + 1 if text else 0)])
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

    def labels_of(self, examples: Sequence[LabelledExample]) -> tuple[Tensor, int]:
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
        return [{"words": text.split(" "), "tags": tags} for text, tags in tagged]
