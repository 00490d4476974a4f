"""Labels of a whole text or pair of texts: one class, several, or a number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, mse_loss

from subgraft.base.errors import UserError
from subgraft.data.tasks.entities import ENTITY_TOKEN, HEAD_TOKEN, TAIL_TOKEN
from subgraft.data.text.corpus import Corpus, labels_of
from subgraft.data.text.units import first_tokens
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.subwords.vocabulary.spelling import spells
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.understanding.input_forms import ONE_TEXT, PAIR, TEXT_OR_PAIR, InputForm
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, Row, TextEncoder
from subgraft.training.understanding.task import LabelledTask, Split, class_probabilities, one_row_each

# The separator of two texts in reports.
BETWEEN = " ‖ "


def take_first(values: Iterable[Any], limit: int | None) -> list[Any]:
    """The first `limit` values, all if None."""
    return list(islice(values, limit))


def read_rows(inputs: Sequence[str | tuple[str, str]], encoder: TextEncoder) -> Split:
    """A row of each text or pair of texts."""
    texts = [each if isinstance(each, str) else BETWEEN.join(each) for each in inputs]
    return Split(one_row_each(encoder.rows(inputs)), texts)


class Classification(LabelledTask):
    """One class of each text."""

    metrics: tuple[str, ...] = ("accuracy", "F1 macro", "MCC")  # micro F1 over all classes is accuracy
    problem_type = "single_label_classification"
    form = ONE_TEXT
    unrecorded_form: ClassVar[InputForm | None] = TEXT_OR_PAIR

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        return cls(labels_of(corpus, "label"))

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        return take_first(corpus.lines(name, "source"), limit)

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        return read_rows(inputs, encoder)

    def labelled(self, read: Split, corpus: Corpus, name: str, limit: int | None = None) -> Split:
        ids = {label: number for number, label in enumerate(self.labels)}
        references = [ids[label] for label in take_first(corpus.lines(name, "label"), limit)]
        return read.with_targets(references, np.array(references))

    def labels_of(self, examples: Sequence[LabelledExample]) -> tuple[Tensor, int]:
        return torch.tensor([example.target for example in examples]), len(examples)

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        return cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=label_smoothing)

    def predicted(self, outputs: Sequence[FloatArray], split: Split) -> np.ndarray:
        classes: np.ndarray = np.stack(outputs).argmax(axis=1)
        return classes

    def in_words(self, predicted: Any, split: Split) -> list[str]:
        return [self.labels[label] for label in predicted]

    def probabilities(self, outputs: Sequence[FloatArray]) -> FloatArray:
        return class_probabilities(np.stack(outputs))

    def facts(self, outputs: Sequence[FloatArray], split: Split) -> list[dict[str, Any]]:
        labels = self.in_words(self.predicted(outputs, split), split)
        rows = self.probabilities(outputs).tolist()
        return [
            {"label": label, "probabilities": dict(zip(self.labels, row, strict=True))}
            for label, row in zip(labels, rows, strict=True)
        ]


class PairClassification(Classification):
    """One class of each pair of texts."""

    form = PAIR

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        return take_first(corpus.records(name, "source", "target"), limit)


# Characters that mark the entities of a text. Zhou and Chen (AACL 2022, table 1) report that punctuation marks are as
# good as new tokens, or better. Other characters replace those that a vocabulary lacks. If a vocabulary has special
# tokens for this purpose, as that of Tsinghua's ERNIE, they are used instead.
HEAD_MARK, TAIL_MARK, ENTITY_MARK = "@", "#", "*"
_TOKENS = {HEAD_MARK: HEAD_TOKEN, TAIL_MARK: TAIL_TOKEN, ENTITY_MARK: ENTITY_TOKEN}
_OTHER_MARKS = "|~^$%&+=_/<>[]{}();:\"'-,.!?"
# A span [start, end) of a text, and the mark around it.
MarkedSpan = tuple[tuple[int, int], str]


def spellable_marks(tokenizer: Tokenizer, *marks: str) -> list[str]:
    """The marks, replaced by others if the vocabulary cannot spell them: unknown tokens would not distinguish them."""
    candidates = [*marks, *_OTHER_MARKS]
    spellable = [mark for mark, is_spelled in zip(candidates, spells(tokenizer, candidates), strict=True) if is_spelled]
    others = iter([mark for mark in spellable if mark not in marks])
    return [mark if mark in spellable else next(others, mark) for mark in marks]


class MarkedText(NamedTuple):
    """A text with marks around its entities. entities: the start of each in this text, and its name."""

    text: str
    entities: Sequence[tuple[int, str]]


def insert_marks(text: str, spans: Sequence[MarkedSpan]) -> MarkedText:
    """The text with a mark before and after each span. If two spans touch, the first one is closed first."""
    opening = [(start, 1, -end, f"{mark} ") for (start, end), mark in spans]
    closing = [(end, 0, -start, f" {mark}") for (start, end), mark in spans]
    result, entities, end_of_last = "", list[tuple[int, str]](), 0
    for position, is_opening, negative_bound, inserted in sorted([*opening, *closing]):
        result += text[end_of_last:position] + inserted
        if is_opening:
            entities.append((len(result), text[position:-negative_bound]))
        end_of_last = position
    return MarkedText(result + text[end_of_last:], entities)


def read_marked(texts: Sequence[tuple[str, Sequence[MarkedSpan]]], encoder: TextEncoder) -> Split:
    """A row for each text, with marks around its spans: special tokens if the vocabulary has them, else characters.

    A model with entity embeddings also reads the entities that it has an embedding for.
    """
    tokenizer, used_marks = encoder.tokenizer, sorted({mark for _, spans in texts for _, mark in spans})
    special = {tokenizer.pieces[token]: token for token in tokenizer.special_ids}
    mark_tokens = {mark: special[_TOKENS[mark]] for mark in used_marks if _TOKENS[mark] in special}
    if len(mark_tokens) == len(used_marks):
        with_tokens = [
            insert_marks(text, [(span, _TOKENS[mark]) for span, mark in spans]).text for text, spans in texts
        ]
        return Split(one_row_each(_rows_with_mark_tokens(texts, mark_tokens, encoder)), with_tokens)
    replacements = dict(zip(used_marks, spellable_marks(tokenizer, *used_marks), strict=True))
    with_characters = [
        insert_marks(text, [(span, replacements[mark]) for span, mark in spans]) for text, spans in texts
    ]
    return replace(
        _split_with_mark_characters(with_characters, encoder), texts=[insert_marks(*each).text for each in texts]
    )


def _rows_with_mark_tokens(
    texts: Sequence[tuple[str, Sequence[MarkedSpan]]], ids: Mapping[str, int], encoder: TextEncoder
) -> Iterator[Row]:
    """Rows with mark tokens around the tokens of each span. ids: the token of each mark."""
    before = len(encoder.layout.begin)
    for (text, spans), (tokens, ends) in zip(texts, encoder.with_ends([text for text, _ in texts]), strict=True):
        # A span starts with the token of its first character, and ends after the token of its last one.
        bounds = [(bisect_right(ends, a), min(bisect_left(ends, b) + 1, len(tokens))) for (a, b), _ in spans]
        opening = [(first, 1, -after, ids[mark]) for (first, after), (_, mark) in zip(bounds, spans, strict=True)]
        closing = [(after, 0, -first, ids[mark]) for (first, after), (_, mark) in zip(bounds, spans, strict=True)]
        inserted = sorted([*opening, *closing])
        positions = [position for position, *_ in inserted]
        ids_of_text = np.insert(np.array(tokens, dtype=np.int64), positions, [token for *_, token in inserted])
        row = encoder.single(ids_of_text.tolist(), len(text))
        by_size = sorted(zip(bounds, spans, strict=True), key=lambda each: each[0][1] - each[0][0])
        mentions = {first + bisect_right(positions, first): text[slice(*span)] for (first, _), (span, _) in by_size}
        known = (
            (before + position, encoder.entities[name])
            for position, name in mentions.items()
            if name in encoder.entities
        )
        stop = len(row.tokens) - len(encoder.layout.end)
        yield row._replace(entities=tuple(sorted(each for each in known if each[0] < stop)))


def _split_with_mark_characters(texts: Sequence[MarkedText], encoder: TextEncoder) -> Split:
    """Rows whose marks are characters of the text."""
    split = read_rows([each.text for each in texts], encoder)
    if not encoder.entities:
        return split
    ids, examples = encoder.entities, list[LabelledExample]()
    tokens_with_ends = encoder.with_ends([each.text for each in texts])
    for example, text, (_, ends) in zip(split.examples, texts, tokens_with_ends, strict=True):
        (row,) = example.rows
        mentions = [(start, start + len(name), ids[name]) for start, name in text.entities if name in ids]
        before, stop = len(encoder.layout.begin), len(row.tokens) - len(encoder.layout.end)
        places = ((before + position, entity) for position, entity in first_tokens(ends, mentions).items())
        entities = tuple((place, entity) for place, entity in places if place < stop)
        examples.append(replace(example, rows=(row._replace(entities=entities),)))
    return replace(split, examples=examples)


class RelationClassification(Classification):
    """The relation of two entities of a text, which are marked."""

    metrics = ("F1 micro", "F1 macro", "accuracy", "MCC")
    form = InputForm(("text",), spans=("head", "tail"))

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        return take_first(corpus.records(name, "source", "head", "tail"), limit)

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        return read_marked([(text, [(head, HEAD_MARK), (tail, TAIL_MARK)]) for text, head, tail in inputs], encoder)


class EntityTyping(LabelledTask):
    """All types of a marked entity of a text. A type is predicted if its probability is above one half."""

    predicts = "labels"
    metrics = ("F1 micro", "F1 macro", "F1 loose", "accuracy")
    problem_type = "multi_label_classification"
    form = InputForm(("text",), spans=("entity",))
    unrecorded_form = InputForm(("text",), spans=("entity",), whole_text=True)

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        return cls(labels_of(corpus, "labels"))

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        return take_first(corpus.records(name, "source", "entity"), limit)

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        return read_marked([(text, [(entity, ENTITY_MARK)] if entity else []) for text, entity in inputs], encoder)

    def labelled(self, read: Split, corpus: Corpus, name: str, limit: int | None = None) -> Split:
        label_lists = take_first(corpus.annotations(name, "labels"), limit)
        references = np.array([[label in labels for label in self.labels] for labels in label_lists], dtype=np.bool_)
        return read.with_targets(references, references)

    def labels_of(self, examples: Sequence[LabelledExample]) -> tuple[Tensor, int]:
        labels = torch.from_numpy(np.stack([example.target for example in examples])).float()
        return labels, labels.numel()

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        targets = batch.labels * (1 - label_smoothing) + label_smoothing / 2
        return binary_cross_entropy_with_logits(logits, targets, reduction="sum")

    def predicted(self, outputs: Sequence[FloatArray], split: Split) -> np.ndarray:
        is_predicted: np.ndarray = np.stack(outputs) > 0
        return is_predicted

    def in_words(self, predicted: Any, split: Split) -> list[str]:
        return [", ".join(self._types(row)) or "none" for row in predicted]

    def facts(self, outputs: Sequence[FloatArray], split: Split) -> list[dict[str, Any]]:
        rows = torch.from_numpy(np.stack(outputs)).sigmoid().tolist()
        return [
            {"labels": self._types(is_predicted), "probabilities": dict(zip(self.labels, row, strict=True))}
            for is_predicted, row in zip(self.predicted(outputs, split), rows, strict=True)
        ]

    def _types(self, row: np.ndarray) -> list[str]:
        return [label for label, is_set in zip(self.labels, row, strict=True) if is_set]


class Regression(LabelledTask):
    """A number for each pair of texts, or for each text."""

    predicts = "value"
    metrics = ("Pearson", "Spearman", "RMSE")
    problem_type = "regression"
    form = PAIR
    unrecorded_form = TEXT_OR_PAIR

    def __init__(self, pairs: bool | None = None) -> None:
        """pairs: whether the model reads two texts; None if it was finetuned elsewhere, so that this is unknown."""
        super().__init__()
        self.pairs = pairs
        self.form = ONE_TEXT if pairs is False else PAIR

    @classmethod
    def of(cls, corpus: Corpus) -> Self:
        return cls(any(each.name == "target" for each in corpus.fields))

    @classmethod
    def of_model(cls, labels: Sequence[str], settings: Mapping[str, Any]) -> Self:
        return cls(settings.get("pairs"))

    @property
    def settings(self) -> dict[str, Any]:
        return {"pairs": self.pairs}

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        return take_first(
            corpus.records(name, "source", "target") if self.pairs else corpus.lines(name, "source"), limit
        )

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        return read_rows(inputs, encoder)

    def labelled(self, read: Split, corpus: Corpus, name: str, limit: int | None = None) -> Split:
        references = np.array(take_first(corpus.annotations(name, "value"), limit), dtype=np.float64)
        if not np.isfinite(references).all():
            raise UserError(f"NaN or infinity among the values of {name}", where=str(corpus.directory))
        return read.with_targets(references.tolist(), references)

    def labels_of(self, examples: Sequence[LabelledExample]) -> tuple[Tensor, int]:
        return torch.tensor([example.target for example in examples], dtype=torch.float32), len(examples)

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        del label_smoothing
        return mse_loss(logits.squeeze(-1), batch.labels, reduction="sum")

    def predicted(self, outputs: Sequence[FloatArray], split: Split) -> np.ndarray:
        return np.array([float(logits.squeeze()) for logits in outputs])

    def in_words(self, predicted: Any, split: Split) -> list[str]:
        return [f"{value:.3f}" for value in predicted]

    def facts(self, outputs: Sequence[FloatArray], split: Split) -> list[dict[str, Any]]:
        return [{"value": value} for value in self.predicted(outputs, split).tolist()]
