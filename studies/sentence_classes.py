"""A causal language model is finetuned to tell classes of sentences apart (Radford et al., 2018, section 3.2).

A linear layer over the state of a sentence's last token, its end, scores the classes; everything is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from subgraft.config.training import PretrainSettings
from subgraft.modeling.families import family_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.causal import Lines, padding_of
from subgraft.training.objectives.compute.embedding_view import IGNORED, ModelEmbeddings
from subgraft.training.objectives.compute.single_stack import StackBatch, StackExample, StackStates, collate
from subgraft.training.schedule import batch_plan
from timed_training import trained

EPOCHS, RATE = 2, 1e-3


@dataclass(frozen=True)
class Labelled:
    """Pairs of a text and its label."""

    train: Sequence[tuple[str, str]]
    test: Sequence[tuple[str, str]]

    @property
    def classes(self) -> list[str]:
        return sorted({label for _, label in self.train})


@dataclass(frozen=True)
class Scores:
    """Of test texts, between 0 and 1."""

    accuracy: float
    macro_f1: float


class LabelledSentences:
    """Sentences whose last token has the class as its label; a batch has so many characters."""

    def __init__(
        self, pairs: Sequence[tuple[str, str]], classes: Sequence[str], tokenizer: Tokenizer, max_length: int
    ) -> None:
        text = [sentence for sentence, _ in pairs]
        self._lines = Lines(text, tokenizer, tokenizer.special["eos"], max_length, "characters")
        self.labels = [classes.index(label) for _, label in pairs]
        self._padding = padding_of(tokenizer)

    @property
    def lengths(self) -> np.ndarray:
        return self._lines.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        tokens = [self._lines.example(int(index), epoch).tokens for index in indices]
        labels = [self.labels[int(index)] for index in indices]
        ignored = [[IGNORED] * (len(each) - 1) for each in tokens]
        examples = [StackExample(*each) for each in zip(tokens, map(_ended, ignored, labels), strict=True)]
        return collate(examples, self._padding)


def _ended(ignored: list[int], label: int) -> list[int]:
    return [*ignored, label]


class Classifier(nn.Module):
    """The loss of a model with a layer for classes on top."""

    def __init__(self, model: PreTrainedModel, classes: int, seed: int) -> None:
        super().__init__()
        self.model = model
        width = family_of(model).width(model.config.to_dict())
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.head = nn.Linear(width, classes)

    def scores(self, batch: StackBatch) -> Tensor:
        """[B, classes]."""
        states = StackStates(self.model, batch, ModelEmbeddings(self.model)).top
        scores: Tensor = self.head(states[batch.labels != IGNORED])
        return scores

    def forward(self, batch: StackBatch) -> dict[str, Tensor]:
        gold = batch.labels[batch.labels != IGNORED]
        return {"loss": functional.cross_entropy(self.scores(batch), gold, reduction="sum")}


def classified(
    model: PreTrainedModel, tokenizer: Tokenizer, labelled: Labelled, seed: int, batch_size: int, max_length: int
) -> Scores:
    """What the model reaches after EPOCHS over the training sentences; it is changed by this."""
    train, test = (
        LabelledSentences(pairs, labelled.classes, tokenizer, max_length) for pairs in (labelled.train, labelled.test)
    )
    settings = PretrainSettings(
        epochs=EPOCHS + 1,  # it ends at its mark
        batch_size=batch_size,
        batch_unit="characters",
        max_length=max_length,
        learning_rate=RATE,
        warmup_steps=100,
        label_smoothing=0.0,
    )
    plan = batch_plan(train.lengths, settings, seed)
    updates = sum(len(plan.epoch(epoch, 0)) for epoch in range(EPOCHS))
    module = Classifier(model, len(labelled.classes), seed)
    results: list[Scores] = []

    def evaluate() -> float:
        results.append(_tested(module, test, settings))
        return results[-1].accuracy

    trained(module, train, settings, seed=seed, evaluate=evaluate, marks=[updates], unit="updates")
    return results[-1]


@torch.no_grad()
def _tested(module: Classifier, test: LabelledSentences, settings: PretrainSettings) -> Scores:
    gold, predicted = list[int](), list[int]()
    for indices in batch_plan(test.lengths, settings, seed=0).epoch(0, 0):
        batch = test.batch(indices, 0)
        gold += batch.labels[batch.labels != IGNORED].tolist()
        predicted += module.scores(batch).argmax(dim=1).tolist()
    return Scores(float(accuracy_score(gold, predicted)), float(f1_score(gold, predicted, average="macro")))
