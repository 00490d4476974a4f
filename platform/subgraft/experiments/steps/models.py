"""The models before any transfer: pretrained here, a checkpoint, or untrained."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from subgraft.config.settings_base import SideName
from subgraft.config.systems import System
from subgraft.config.vocabularies import SamplingSettings
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.experiments.steps.vocabularies import VocabularySteps, language_exponent
from subgraft.orchestration.store.step import Step
from subgraft.pipeline import stages
from subgraft.pipeline.recipes.models import AssembleRecipe, BuildRecipe
from subgraft.pipeline.recipes.training import PretrainRecipe


class ModelSteps:
    """The upstream model, and the initial models of systems with a pretraining of their own."""

    def __init__(self, inputs: InputSteps, vocabularies: VocabularySteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs
        self._vocabularies = vocabularies

    @cached_property
    def pretrained(self) -> Step:
        """The upstream model: learnt here, or a checkpoint, as it is or pretrained further."""
        upstream = self.experiment.upstream
        if upstream.checkpoint is None:
            return self._pretrain(f"pretrain on {upstream.corpus}", _by_role(self._vocabularies.upstream))
        if upstream.continue_pretraining:
            return self._pretrain(f"pretrain further on {upstream.corpus}", {"model": self._inputs.checkpoint})
        return self._inputs.checkpoint

    def ready_to_translate(self, model: Step) -> Step:
        """The model itself, or the encoder-decoder made from it where it is a masked language model."""
        if all(objective.writes for objective in self.experiment.upstream.objectives):
            return model
        recipe = AssembleRecipe(seed=self.experiment.upstream.seed)
        return Step(stages.ASSEMBLE, f"encoder-decoder of {model.name}", recipe, {"model": model})

    def initial(self, system: System, seed: int) -> Step:
        """The model of a system before any transfer."""
        corpus = self.experiment.upstream.corpus
        if system.pretraining == "none":
            recipe = BuildRecipe(model=self.experiment.model, seed=seed)
            return Step(
                stages.BUILD, f"untrained model seed {seed}", recipe, _by_role(self._vocabularies.of_new_model(system))
            )
        if system.pretraining == "sampled":
            sampling = self.experiment.upstream.sampling
            return self._pretrain(f"pretrain on {corpus}, sampled", _by_role(self._vocabularies.upstream), sampling)
        if system.pretraining == "downstream-vocabulary":
            name = f"pretrain on {corpus} with the downstream vocabulary"
            return self._pretrain(
                name, _by_role(self._vocabularies.on_changed_sides(self._vocabularies.of_new_model(system)))
            )
        if system.pretraining == "joint-vocabulary":
            name = f"pretrain on {corpus} with a joint vocabulary"
            return self._pretrain(name, _by_role(self._vocabularies.on_changed_sides(self._vocabularies.joint)))
        return self.pretrained

    def _pretrain(self, name: str, start: Mapping[str, Step], sampling: SamplingSettings | None = None) -> Step:
        """start: the vocabularies of a model that is built, or the model that is pretrained further."""
        experiment, upstream = self.experiment, self.experiment.upstream
        recipe = PretrainRecipe(
            objectives=upstream.objectives,
            languages=experiment.upstream_languages,
            model=None if "model" in start else experiment.model,
            training=experiment.pretrain,
            seed=upstream.seed,
            sampling=sampling,
            language_exponent=language_exponent(upstream, self._inputs.base),
        )
        return with_engine(Step(stages.PRETRAIN, name, recipe, {"corpus": self._inputs.upstream_corpus} | dict(start)))


def _by_role(vocabularies: Mapping[SideName, Step]) -> dict[str, Step]:
    return {str(side): step for side, step in vocabularies.items()}
