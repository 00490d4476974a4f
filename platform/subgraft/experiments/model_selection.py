"""Which finetuned model is registered: of those that their finetuning made better, the best on dev."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from subgraft.evaluation.reporting.numbers import fixed
from subgraft.experiments.system_steps import SystemSteps
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.selected_weights import SelectedWeights, selected_weights


@dataclass(frozen=True)
class Finetuned:
    """A system under one seed, and which of its weights were kept."""

    steps: SystemSteps
    kept: SelectedWeights

    @classmethod
    def read(cls, steps: SystemSteps, store: Store) -> Finetuned:
        return cls(steps, selected_weights(store.path(steps.finetune), steps.finetune.recipe.training.select))

    def __str__(self) -> str:
        return f"{self.steps.system.name}, seed {self.steps.seed} (dev {self.kept.score} {fixed(self.kept.value)})"


@dataclass(frozen=True)
class Selection:
    """chosen: what is to be registered, if anything.  passed_over: as good on dev or better, but before any training.

    Where the weights of step 0 are the best, the model is the one that finetuning began with: it has nothing of the
    task, and no user of a registry would expect it there.
    """

    chosen: Finetuned | None
    passed_over: tuple[Finetuned, ...]

    @classmethod
    def of(cls, found: Sequence[Finetuned]) -> Selection:
        """Chosen by dev scores alone: the test set chooses nothing. Of equals, the first."""
        ranked = sorted(found, key=lambda one: -one.kept.worth)
        chosen = next((one for one in ranked if one.kept.step > 0), None)
        untrained = (one for one in ranked if one.kept.step == 0)
        ahead = (one for one in untrained if chosen is None or one.kept.worth >= chosen.kept.worth)
        return cls(chosen, tuple(ahead))

    @property
    def warning(self) -> str | None:
        """What its user must know of the choice, in one line."""
        if not self.passed_over:
            return None
        if self.chosen is None:
            kept = self.passed_over[0].kept
            beyond = "above" if kept.worth == kept.value else "below"
            return (
                f"no model is registered: no finetuning reached a dev {kept.score} {beyond} that of the model that it "
                "began with (train longer, or with another finetune.learning_rate)"
            )
        named = "; ".join(map(str, self.passed_over))
        return f"best on dev before any training, and therefore not registered: {named}; registered is {self.chosen}"
