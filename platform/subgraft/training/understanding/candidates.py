"""Candidates of which one is right, or some are relevant: multiple choice, and ranking for a query."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.modeling.families.heads import kind_of_class
from subgraft.training.understanding.inputs import LabelledBatch, LabelledExample, TextEncoder, model_inputs
from subgraft.training.understanding.sequences import taken
from subgraft.training.understanding.task import LabelledTask, Predictions, Split, class_probabilities, head_logits


class _Candidates(LabelledTask):
    """A score of each candidate, and a softmax over those of an example: the target is a distribution over them."""

    head = "choice"

    def labels_of(self, examples: Sequence[LabelledExample], longest: int) -> tuple[Tensor, int]:
        del longest
        targets = np.concatenate([example.target for example in examples])
        return torch.from_numpy(targets).float(), sum(bool(example.target.any()) for example in examples)

    def logits(self, model: PreTrainedModel, batch: LabelledBatch) -> Tensor:
        """A score of each row [R]. A head for choices gets one at a time: examples may have different numbers."""
        inputs = model_inputs(model, batch)
        if kind_of_class(type(model).__name__) == "choice":  # not one for sequences that stands in for it
            inputs = {name: tensor[:, None] for name, tensor in inputs.items()}
        return head_logits(model, inputs).squeeze(-1)

    def loss(self, logits: Tensor, batch: LabelledBatch, label_smoothing: float = 0.0) -> Tensor:
        """Cross entropy (MT-DNN's equation 6 with γ = 1: Liu et al., ACL 2019)."""
        sizes = batch.rows.tolist()
        total = logits.new_zeros(())
        for scores, wanted in zip(torch.split(logits, sizes), torch.split(batch.labels, sizes), strict=True):
            smooth = wanted * (1 - label_smoothing) + wanted.sum() * label_smoothing / len(wanted)
            total = total - (smooth * scores.log_softmax(dim=0)).sum()
        return total

    def by_example(self, logits: Tensor, batch: LabelledBatch) -> list[FloatArray]:
        return [scores.numpy() for scores in torch.split(logits.double().cpu(), batch.rows.tolist())]


class MultipleChoice(_Candidates):
    """Which of the choices goes with a text."""

    metrics = ("accuracy",)

    def split(self, corpus: Corpus, name: str, encoder: TextEncoder, limit: int | None = None) -> Split:
        choices = [field.name for field in corpus.fields if field.kind == "text" and field.name != "source"]
        sources = taken(corpus.lines(name, "source"), limit)
        by_choice = [taken(corpus.lines(name, choice), limit) for choice in choices]
        references = np.array(taken(corpus.annotations(name, "answer"), limit), dtype=np.int64)
        rows = zip(*(list(encoder.pairs(sources, lines)) for lines in by_choice), strict=True)
        one_hot = np.eye(len(choices))
        examples = [LabelledExample(each, one_hot[place]) for each, place in zip(rows, references, strict=True)]
        return Split(examples, references, sources, list(zip(*by_choice, strict=True)))

    def predictions(self, outputs: Sequence[FloatArray], split: Split) -> Predictions:
        chosen = np.array([int(scores.argmax()) for scores in outputs])
        texts, wanted = (
            [choices[place] for choices, place in zip(split.details, side, strict=True)]
            for side in (chosen, split.references)
        )
        return Predictions(chosen, split.references, texts, wanted, class_probabilities(np.stack(outputs)))


class Ranking(_Candidates):
    """The candidates of a query, the relevant ones first. A query without a relevant candidate is not trained on."""

    metrics = ("MRR", "NDCG@10", "ERR@20")

    def split(self, corpus: Corpus, name: str, encoder: TextEncoder, limit: int | None = None) -> Split:
        columns = (corpus.lines(name, each) for each in ("query-id", "source", "target"))
        records = zip(*columns, corpus.annotations(name, "relevance"), strict=True)
        queries = taken(([*group] for _, group in groupby(records, key=lambda record: record[0])), limit)
        rows = encoder.pairs(*([record[at] for query in queries for record in query] for at in (1, 2)))
        examples, relevances = list[LabelledExample](), list[np.ndarray]()
        for query in queries:
            relevance = np.array([record[3] for record in query], dtype=np.int64)
            relevances.append(relevance)
            target = (relevance > 0) / max(1, (relevance > 0).sum())
            examples.append(LabelledExample(tuple(next(rows) for _ in query), target))
        candidates = [[record[2] for record in query] for query in queries]
        return Split(examples, relevances, [query[0][1] for query in queries], candidates)

    def predictions(self, outputs: Sequence[FloatArray], split: Split) -> Predictions:
        texts, wanted = (
            [candidates[int(np.argmax(scores))] for candidates, scores in zip(split.details, side, strict=True)]
            for side in (outputs, split.references)
        )
        return Predictions(list(outputs), split.references, texts, wanted)
