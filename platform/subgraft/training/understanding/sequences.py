"""Labels of a whole text or pair of texts: one class, several, or a number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus, labels_of
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, TextEncoder
from subgraft.training.understanding.task import LabelledTask, Predictions, Split, class_probabilities, one_row_each

# Between two texts in reports.
BETWEEN = " ‖ "


def taken(values: Iterable[Any], limit: int | None) -> list[Any]:
    """The first `limit` values, all if None."""
    return list(islice(values, limit))


class Classification(LabelledTask):
    """One class of each text."""

    metrics = ("accuracy", "F1 macro", "F1 micro", "MCC")
    problem_type = "single_label_classification"

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        return cls(labels_of(corpus, "label"))

    def texts(self, corpus: Corpus, name: str, limit: int | None) -> list[str]:
        """The texts of a split, as the model reads them."""
        return taken(corpus.lines(name, "source"), limit)

    def split(self, corpus: Corpus, name: str, encoder: TextEncoder, limit: int | None = None) -> Split:
        texts = self.texts(corpus, name, limit)
        places = {label: place for place, label in enumerate(self.labels)}
        references = [places[label] for label in taken(corpus.lines(name, "label"), limit)]
        rows = list(encoder.singles(texts))
        return Split(one_row_each(rows, references), np.array(references), texts)

    def labels_of(self, examples: Sequence[LabelledExample], longest: int) -> tuple[Tensor, int]:
        del longest
        return torch.tensor([example.target for example in examples]), len(examples)

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        return cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=label_smoothing)

    def predictions(self, outputs: Sequence[FloatArray], split: Split) -> Predictions:
        logits = np.stack(outputs)
        chosen = logits.argmax(axis=1)
        texts, wanted = ([self.labels[place] for place in side] for side in (chosen, split.references))
        return Predictions(chosen, split.references, texts, wanted, class_probabilities(logits))


class PairClassification(Classification):
    """One class of each pair of texts."""

    def split(self, corpus: Corpus, name: str, encoder: TextEncoder, limit: int | None = None) -> Split:
        firsts, seconds = (taken(corpus.lines(name, side), limit) for side in ("source", "target"))
        places = {label: place for place, label in enumerate(self.labels)}
        references = [places[label] for label in taken(corpus.lines(name, "label"), limit)]
        rows = list(encoder.pairs(firsts, seconds))
        texts = [first + BETWEEN + second for first, second in zip(firsts, seconds, strict=True)]
        return Split(one_row_each(rows, references), np.array(references), texts)


# Characters around the entities of a text, which every vocabulary has: Zhou and Chen (AACL 2022, table 1) find markers
# of punctuation as good as new tokens, or better.
HEAD_MARK, TAIL_MARK, ENTITY_MARK = "@", "#", "*"


def marked(text: str, spans: Sequence[tuple[tuple[int, int], str]]) -> str:
    """The text with each span [start, end) between two of its marks."""
    inserted = [(place, f"{mark} " if at == 0 else f" {mark}") for span, mark in spans for at, place in enumerate(span)]
    for place, mark in sorted(inserted, key=lambda one: one[0], reverse=True):
        text = text[:place] + mark + text[place:]
    return text


class RelationClassification(Classification):
    """The relation of two entities of a text, which are marked."""

    metrics = ("F1 micro", "F1 macro", "accuracy", "MCC")

    def texts(self, corpus: Corpus, name: str, limit: int | None) -> list[str]:
        records = taken(corpus.records(name, "source", "head", "tail"), limit)
        return [marked(text, [(head, HEAD_MARK), (tail, TAIL_MARK)]) for text, head, tail in records]


class EntityTyping(LabelledTask):
    """All types of an entity of a text, which is marked; a type is predicted if its probability is over a half."""

    metrics = ("F1 micro", "F1 macro", "F1 loose", "accuracy")
    problem_type = "multi_label_classification"

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        return cls(labels_of(corpus, "labels"))

    def split(self, corpus: Corpus, name: str, encoder: TextEncoder, limit: int | None = None) -> Split:
        records = taken(corpus.records(name, "source", "entity"), limit)
        texts = [marked(text, [(entity, ENTITY_MARK)]) for text, entity in records]
        named = taken(corpus.annotations(name, "labels"), limit)
        references = np.array([[label in labels for label in self.labels] for labels in named], dtype=np.bool_)
        rows = list(encoder.singles(texts))
        return Split(one_row_each(rows, list(references)), references, texts)

    def labels_of(self, examples: Sequence[LabelledExample], longest: int) -> tuple[Tensor, int]:
        del longest
        labels = torch.from_numpy(np.stack([example.target for example in examples])).float()
        return labels, labels.numel()

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        wanted = batch.labels * (1 - label_smoothing) + label_smoothing / 2
        return binary_cross_entropy_with_logits(logits, wanted, reduction="sum")

    def predictions(self, outputs: Sequence[FloatArray], split: Split) -> Predictions:
        chosen = np.stack(outputs) > 0
        texts, wanted = ([self._in_words(row) for row in side] for side in (chosen, split.references))
        return Predictions(chosen, split.references, texts, wanted)

    def _in_words(self, row: np.ndarray) -> str:
        return ", ".join(label for label, is_set in zip(self.labels, row, strict=True) if is_set) or "none"


class Regression(LabelledTask):
    """A number for each pair of texts."""

    metrics = ("Pearson", "Spearman", "RMSE")
    problem_type = "regression"

    def split(self, corpus: Corpus, name: str, encoder: TextEncoder, limit: int | None = None) -> Split:
        firsts, seconds = (taken(corpus.lines(name, side), limit) for side in ("source", "target"))
        references = np.array(taken(corpus.annotations(name, "value"), limit), dtype=np.float64)
        if not np.isfinite(references).all():
            raise UserError(f"NaN or infinity among the values of {name}", where=str(corpus.directory))
        rows = list(encoder.pairs(firsts, seconds))
        texts = [first + BETWEEN + second for first, second in zip(firsts, seconds, strict=True)]
        return Split(one_row_each(rows, references.tolist()), references, texts)

    def labels_of(self, examples: Sequence[LabelledExample], longest: int) -> tuple[Tensor, int]:
        del longest
        return torch.tensor([example.target for example in examples], dtype=torch.float32), len(examples)

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        del label_smoothing
        return mse_loss(logits.squeeze(-1), batch.labels, reduction="sum")

    def predictions(self, outputs: Sequence[FloatArray], split: Split) -> Predictions:
        values = np.array([float(logits.squeeze()) for logits in outputs])
        texts, wanted = ([f"{value:.3f}" for value in side] for side in (values, split.references))
        return Predictions(values, split.references, texts, wanted)
