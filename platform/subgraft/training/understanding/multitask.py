"""Several tasks at once (MT-DNN; Liu et al., ACL 2019, algorithm 1): one body, and a head for each task.

Each batch has examples of one task; all batches of all tasks are shuffled together, so tasks occur in proportion to
their sizes. A head that a batch does not use has no gradient on any worker and stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families.heads import LONGEST, OWN_HEAD, TASK_ENTRY, own_head_in
from subgraft.modeling.further_heads import HEADS, read_head, share_parameters, write_heads
from subgraft.modeling.heads import head_of
from subgraft.training.objectives.compute.mixture import MixedBatch, Mixture, loss_name, users_of
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings
from subgraft.training.understanding.objective import (
    LabelledExamples,
    LabelLoss,
    bundle_with_head,
    with_task_head,
)
from subgraft.training.understanding.registry import recorded_task


class TasksAtOnce(Mixture):
    """The labelled training examples of several tasks, by name. The dev score of the first task selects weights."""

    def __init__(self, tasks: Mapping[str, LabelledExamples]) -> None:
        super().__init__(tasks)
        self._tasks = tasks

    @property
    def truncated(self) -> dict[str, int]:
        """The number of examples of each task with a truncated text."""
        return {name: task.truncated for name, task in self._tasks.items()}

    def loss(self, bundles: Mapping[str, Bundle]) -> TaskLosses:
        return TaskLosses({name: task.loss(bundles[name]) for name, task in self._tasks.items()})

    def dev_scores(self, bundles: Mapping[str, Bundle]) -> Callable[[], dict[str, float]]:
        """The scores of the first task, and those of every other task as NAME_score and NAME_nats."""
        own, *_ = self._tasks
        scorers = {name: task.dev_scores(bundles[name]) for name, task in self._tasks.items()}

        def scores() -> dict[str, float]:
            by_task = {name: scorer() for name, scorer in scorers.items()}
            others = {f"{name}_{key}": score for name in by_task if name != own for key, score in by_task[name].items()}
            return by_task[own] | others

        return scores


class TaskLosses(nn.Module):
    """The loss of a batch's task, as NAME_loss.

    model: the model of the first task.  models: the models of all tasks, which share the modules of the body.
    """

    def __init__(self, losses: Mapping[str, LabelLoss]) -> None:
        super().__init__()
        self._losses = dict(losses)  # not registered: `models` has all parameters
        self.model: PreTrainedModel = next(iter(losses.values())).model
        self.models = nn.ModuleList([loss.model for loss in losses.values()])
        self.weights = {loss_name(name, "loss"): 1.0 for name in losses}

    @property
    def users(self) -> dict[nn.Parameter, frozenset[str]]:
        """For each parameter that not all losses use, the names of the losses that do."""
        losses = zip(self.weights, self._losses.values(), strict=True)
        return users_of([((name,), loss.model.parameters()) for name, loss in losses])

    def forward(self, batch: MixedBatch) -> dict[str, Tensor]:
        return {loss_name(batch.kind, name): value for name, value in self._losses[batch.kind](batch.batch).items()}


def with_task_heads(
    bundle: Bundle,
    tasks: Mapping[str, tuple[LabelledSettings | LabelledPairsSettings, Corpus]],
    seed: int,
    longest: int | None = None,
) -> dict[str, Bundle]:
    """The model with the head of each task on one body, by the task's name; heads are drawn from the seed.

    longest: the limit of inputs in tokens.
    """
    bundles = {
        name: with_task_head(bundle, settings, corpus, seed, longest) for name, (settings, corpus) in tasks.items()
    }
    share_parameters([each.model for each in bundles.values()])
    return bundles


def save_heads(bundles: Mapping[str, Bundle], directory: Path) -> None:
    """Write the heads of all tasks but the first to the directory of the first task's model, whose body they share.

    Parameters are named NAME.PARAMETER. The metadata describes each task as its config.json would.
    """
    (_, first), *others = bundles.items()
    heads = dict[str, tuple[PreTrainedModel, Mapping[str, Any]]]()
    for name, bundle in others:
        head = head_of(bundle.model)
        description = {"labels": list(head.labels) if head else [], **getattr(bundle.model.config, TASK_ENTRY)}
        description[OWN_HEAD] = getattr(bundle.model.config, OWN_HEAD, None)
        heads[name] = bundle.model, description
    write_heads(first.model, heads, directory)


def load_head(directory: Path, name: str) -> Bundle:
    """The model of a directory with the head of another task that it was trained on.

    Raises UserError if the directory has no such head.
    """
    entry, weights = read_head(directory, name)
    bundle = Bundle.load(directory)
    task = recorded_task(entry["task"], entry["labels"], entry, str(directory / HEADS))
    headed = bundle_with_head(bundle, entry["task"], task, 0, entry.get(LONGEST), own_head_in(entry))
    headed.model.load_state_dict(weights, strict=False)
    return headed
