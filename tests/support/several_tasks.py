"""Several small tasks on one model, trained at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from labelled import ENGLISH, labelled_corpus
from subgraft.config.training import FinetuneSettings
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings
from subgraft.training.objectives.registry import task_objective
from subgraft.training.understanding.multitask import TasksAtOnce, with_task_heads
from subgraft.training.understanding.objective import LabelledExamples
from toys import bert, cased_tokenizer, german_tokenizer

SIZES: Mapping[str, int] = {"classification": 40, "span-extraction": 120, "regression": 80}


def settings(**changes: Any) -> FinetuneSettings:
    whole = {"epochs": 2, "batch_size": 200, "learning_rate": 0.01, "warmup_steps": 2, "precision": "fp32"}
    return FinetuneSettings.model_validate(whole | changes)


def labelled(task: str) -> LabelledSettings | LabelledPairsSettings:
    """The objective of a task."""
    objective = task_objective(task)
    assert isinstance(objective, LabelledSettings | LabelledPairsSettings)
    return objective


class Several:
    """Tasks that are named by what they are, with a head each on one model."""

    def __init__(
        self,
        place: Path,
        training: FinetuneSettings,
        sizes: Mapping[str, int] = SIZES,
        build: Callable[[], PreTrainedModel] = bert,
    ) -> None:
        tokenizer = cased_tokenizer() if build is bert else german_tokenizer()
        self.training = training
        self.tasks = {name: labelled(name) for name in sizes}
        self.corpora = {name: labelled_corpus(name, place, train=size, dev=10) for name, size in sizes.items()}
        examples = {name: (self.tasks[name], self.corpora[name]) for name in sizes}
        self.bundles = with_task_heads(Bundle(build(), tokenizer, tokenizer), examples, 3)
        self.parts = {
            name: LabelledExamples(
                self.tasks[name],
                ObjectiveInputs(self.bundles[name], self.corpora[name], ENGLISH, training, 3),
                training,
            )
            for name in sizes
        }
        self.data = TasksAtOnce(self.parts)
        self.loss = self.data.loss(self.bundles)

    @property
    def heads(self) -> dict[str, dict[str, torch.Tensor]]:
        """The parameters that only one task has, by task."""
        owners = Counter(id(p) for each in self.bundles.values() for p in each.model.parameters())
        return {
            name: {key: p for key, p in each.model.named_parameters() if owners[id(p)] == 1}
            for name, each in self.bundles.items()
        }
