"""The training on several tasks at once, before or in place of a system's finetuning."""

from __future__ import annotations

from subgraft.config.systems import System
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.training import MultitaskRecipe


class MultitaskSteps:
    """Trainings on several tasks; systems that begin with the same model and seed share one."""

    def __init__(self, inputs: InputSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs

    def training(self, system: System, seed: int, prepared: Step) -> Step[MultitaskRecipe] | None:
        """The training of `prepared`, which has the system's vocabulary; None for a system without one."""
        experiment = self.experiment
        if system.multitask is None:
            return None
        assert experiment.multitask is not None and experiment.multitask_training is not None  # validation requires it
        tasks = experiment.multitask.tasks
        recipe = MultitaskRecipe(
            languages=experiment.languages,
            training=experiment.multitask_training.finetuning(experiment.finetune),
            seed=seed,
            objective=experiment.objective_of(system),
            tasks={name: experiment.learnt_with(each) for name, each in tasks.items()},
        )
        corpora = {recipe.corpus_of(name): self._inputs.corpus_of(each) for name, each in tasks.items()}
        inputs = {"model": prepared, "corpus": self._inputs.downstream_corpus, **corpora}
        labels = {"system": system.name, "seed": str(seed)}
        return Step(stages.MULTITASK, f"multitask {system.name} seed {seed}", recipe, inputs, labels)
