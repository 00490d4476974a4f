"""The finetuned model to register: the best on dev of those that finetuning improved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from subgraft.evaluation.reporting.numbers import fixed
from subgraft.experiments.steps.system import SystemSteps
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.training.progress import SelectedWeights, selected_weights


@dataclass(frozen=True)
class Finetuned:
    """A system under one seed, and its selected weights.

    on_several_tasks: whether those of step 0 were trained on its task already, together with others or by sentence.
    """

    steps: SystemSteps
    weights: SelectedWeights
    on_several_tasks: bool = False

    @classmethod
    def read(cls, steps: SystemSteps, store: Store) -> Finetuned:
        def selected(step: Step[FinetuneStage]) -> SelectedWeights:
            return selected_weights(store.path(step), step.stage.training.select)

        previous = steps.multitask or steps.by_sentence
        return cls(steps, selected(steps.finetune), previous is not None and selected(previous).step > 0)

    @property
    def is_trained(self) -> bool:
        """Whether any training on the task made the weights."""
        return self.weights.step > 0 or self.on_several_tasks

    def __str__(self) -> str:
        return (
            f"{self.steps.system.name}, seed {self.steps.seed} (dev {self.weights.score} {fixed(self.weights.value)})"
        )


@dataclass(frozen=True)
class Selection:
    """The model to register (`chosen`), and models at least as good on dev before any training (`passed_over`).

    If the weights of step 0 are the best, the model is the one before finetuning, which users of a registry would not
    expect there.
    """

    chosen: Finetuned | None
    passed_over: tuple[Finetuned, ...]

    @classmethod
    def of(cls, finetuned: Sequence[Finetuned]) -> Selection:
        """Select by dev scores alone, never by the test set; of equal models, the first."""
        ranked = sorted(finetuned, key=lambda model: -model.weights.signed_value)
        chosen = next((model for model in ranked if model.is_trained), None)
        untrained = (model for model in ranked if not model.is_trained)
        ahead = (
            model for model in untrained if chosen is None or model.weights.signed_value >= chosen.weights.signed_value
        )
        return cls(chosen, tuple(ahead))

    @property
    def warning(self) -> str | None:
        """A warning about the choice, in one line."""
        if not self.passed_over:
            return None
        if self.chosen is None:
            weights = self.passed_over[0].weights
            comparison = "above" if weights.signed_value == weights.value else "below"
            return (
                f"no model is registered: no finetuning reached a dev {weights.score} {comparison} that of the model "
                "that it started from (train longer, or with another finetune.learning_rate)"
            )
        untrained = "; ".join(map(str, self.passed_over))
        return (
            f"best on dev before any training, and therefore not registered: {untrained}; registered is {self.chosen}"
        )
