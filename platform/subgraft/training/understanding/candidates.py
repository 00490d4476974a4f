"""Tasks that score candidates, of which one is correct or some are relevant: multiple choice, and ranking."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.modeling.families.heads import kind_of_class
from subgraft.training.understanding.input_forms import InputForm
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, TextEncoder, model_inputs
from subgraft.training.understanding.sequences import take_first
from subgraft.training.understanding.task import LabelledTask, Split, class_probabilities, head_logits


class _Candidates(LabelledTask):
    """A score for each candidate, and a softmax over the candidates of an example. The target is a distribution."""

    head = "choice"

    @classmethod
    def of_model(cls, labels: Sequence[str], settings: Mapping[str, Any]) -> Self:
        return cls()

    def read(self, inputs: Sequence[Any], encoder: TextEncoder) -> Split:
        rows = encoder.pairs(
            [text for text, candidates in inputs for _ in candidates],
            [candidate for _, candidates in inputs for candidate in candidates],
        )
        examples = [LabelledExample(tuple(next(rows) for _ in candidates)) for _, candidates in inputs]
        return Split(examples, [text for text, _ in inputs], [candidates for _, candidates in inputs])

    def is_trainable(self, example: LabelledExample) -> bool:
        return len(example.rows) > 1 and bool(example.target.any())

    def labels_of(self, examples: Sequence[LabelledExample]) -> tuple[Tensor, int]:
        targets = np.concatenate([example.target for example in examples])
        return torch.from_numpy(targets).float(), sum(bool(example.target.any()) for example in examples)

    def logits(self, model: PreTrainedModel, batch: LabelledBatch) -> Tensor:
        """A score for each row [R]. A head for choices reads one row at a time, because examples differ in choices."""
        inputs = model_inputs(model, batch)
        if kind_of_class(type(model).__name__) == "choice":  # rather than a head for sequences in its place
            inputs = {name: tensor[:, None] for name, tensor in inputs.items()}
        return head_logits(model, inputs).squeeze(-1)

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        """Cross entropy (MT-DNN's equation 6 with γ = 1: Liu et al., ACL 2019)."""
        sizes = batch.rows.tolist()
        total = logits.new_zeros(())
        for scores, target in zip(torch.split(logits, sizes), torch.split(batch.labels, sizes), strict=True):
            smooth = target * (1 - label_smoothing) + target.sum() * label_smoothing / len(target)
            total = total - (smooth * scores.log_softmax(dim=0)).sum()
        return total

    def by_example(self, logits: Tensor, batch: LabelledBatch) -> list[FloatArray]:
        return [scores.numpy() for scores in torch.split(logits.double().cpu(), batch.rows.tolist())]


class MultipleChoice(_Candidates):
    """Selects the choice that fits a text."""

    metrics = ("accuracy",)
    form = InputForm(("text",), several="choices")

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        choices = [field.name for field in corpus.fields if field.kind == "text" and field.name != "source"]
        return [(text, cells) for text, *cells in take_first(corpus.records(name, "source", *choices), limit)]

    def labelled(self, read: Split, corpus: Corpus, name: str, limit: int | None = None) -> Split:
        references = np.array(take_first(corpus.annotations(name, "answer"), limit), dtype=np.int64)
        both = zip(read.details, references, strict=True)
        return read.with_targets((np.eye(len(choices))[answer] for choices, answer in both), references)

    def predicted(self, outputs: Sequence[FloatArray], split: Split) -> np.ndarray:
        return np.array([int(scores.argmax()) for scores in outputs])

    def in_words(self, predicted: Any, split: Split) -> list[str]:
        return [choices[choice] for choices, choice in zip(split.details, predicted, strict=True)]

    def probabilities(self, outputs: Sequence[FloatArray]) -> FloatArray:
        return class_probabilities(np.stack(outputs))

    def facts(self, outputs: Sequence[FloatArray], split: Split) -> list[dict[str, Any]]:
        return [
            {"choice": int(scores.argmax()), "probabilities": class_probabilities(scores[None])[0].tolist()}
            for scores in outputs
        ]


class Ranking(_Candidates):
    """Ranks the candidates of a query. Queries without a relevant candidate are not trained on."""

    predicts = "ranking"
    metrics = ("MRR", "NDCG@10", "ERR@20")
    form = InputForm(("query",), several="candidates")

    def inputs(self, corpus: Corpus, name: str, limit: int | None = None) -> list[Any]:
        queries = _group_by_query(corpus, name, limit, corpus.lines(name, "source"), corpus.lines(name, "target"))
        return [(query[0][0], [candidate for _, candidate in query]) for query in queries]

    def labelled(self, read: Split, corpus: Corpus, name: str, limit: int | None = None) -> Split:
        queries = _group_by_query(corpus, name, limit, corpus.annotations(name, "relevance"))
        relevances = [np.array(query, dtype=np.int64)[:, 0] for query in queries]
        targets = ((relevance > 0) / max(1, (relevance > 0).sum()) for relevance in relevances)
        return read.with_targets(targets, relevances)

    def predicted(self, outputs: Sequence[FloatArray], split: Split) -> list[FloatArray]:
        return list(outputs)

    def in_words(self, predicted: Any, split: Split) -> list[str]:
        both = zip(split.details, predicted, strict=True)
        return [candidates[int(np.argmax(scores))] for candidates, scores in both]

    def facts(self, outputs: Sequence[FloatArray], split: Split) -> list[dict[str, Any]]:
        return [
            {"ranks": (np.argsort(np.argsort(-scores, kind="stable")) + 1).tolist(), "scores": scores.tolist()}
            for scores in outputs
        ]


def _group_by_query(
    corpus: Corpus, name: str, limit: int | None, *columns: Iterable[Any]
) -> list[list[tuple[Any, ...]]]:
    """The cells of the records of each query; the records of a query are consecutive."""
    records = zip(corpus.lines(name, "query-id"), *columns, strict=True)
    groups = groupby(records, key=lambda record: record[0])
    return take_first(([record[1:] for record in group] for _, group in groups), limit)
