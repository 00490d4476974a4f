"""The models before finetuning: pretrained here, a checkpoint, untrained; with a source, or of several tasks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from subgraft.base.entries import imported
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.experiment.systems import System
from subgraft.config.settings_base import SideName
from subgraft.config.vocabularies import SamplingSettings, VocabularySettings
from subgraft.experiments.preflight import require_ends_of_blocks, require_head
from subgraft.experiments.steps.decoding_engine import config_of, require_context, with_engine
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.experiments.steps.vocabularies import VocabularySteps, language_exponent
from subgraft.modeling.families import config_dict, family_of
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.models import (
    AssembleStage,
    BuildStage,
    SavedWeightsStage,
    SourceEncoderStage,
    UntieStage,
)
from subgraft.pipeline.stages.training import MultitaskStage, PretrainStage
from subgraft.pipeline.stages.vocabularies import VocabularyStage

CONDITIONED_STEP = "subgraft.contrib.conditioning.steps:conditioned_step"
CONTEXT_STAGE = "subgraft.contrib.context.stage:ContextStage"
_VOCABULARY_FIELDS = set(VocabularySettings.model_fields)


class ModelSteps:
    """The upstream model, and the initial models of systems with a pretraining of their own."""

    def __init__(self, inputs: InputSteps, vocabularies: VocabularySteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs
        self._vocabularies = vocabularies

    @cached_property
    def pretrained(self) -> Step:
        """The upstream model: pretrained here, or a checkpoint, unchanged or pretrained further."""
        upstream = self.experiment.upstream
        if upstream.checkpoint is None:
            require_head(self.experiment, config_dict(self.experiment.model, 0, 0), "model")
            require_ends_of_blocks(self.experiment, config_dict(self.experiment.model, 0, 0), "model")
            return self._pretrain(f"pretrain on {upstream.corpus}", self._parts(self._vocabularies.upstream))
        if upstream.continue_pretraining:
            return self._pretrain(f"pretrain further on {upstream.corpus}", {"model": self._inputs.checkpoint})
        return self._inputs.checkpoint

    def ready_to_translate(self, model: Step) -> Step:
        """The model, or an encoder-decoder made from it if it is a masked language model that has to generate text."""
        experiment = self.experiment
        if experiment.finetuned_on.understands or all(objective.writes for objective in experiment.upstream.objectives):
            return model
        stage = AssembleStage(seed=experiment.upstream.seed)
        return Step(stage, f"encoder-decoder of {model.name}", {"model": model})

    def untied(self, system: System, model: Step) -> Step:
        """The model, with output embeddings of its own if the system asks for them and they are tied."""
        if not system.untie:
            return model
        config = config_of(model)
        try:
            untied = family_of(config).untied(config)
        except UserError as error:
            raise UserError(error.what, where=f"system {system.name}: untie", hint=error.hint) from None
        return model if untied == config else Step(UntieStage(), f"untied {model.name}", {"model": model})

    def initial(self, system: System, seed: int) -> Step:
        """The model of a system before any transfer."""
        corpus = self.experiment.upstream.corpus
        if system.pretraining == "none":
            stage, names = BuildStage(model=self.experiment.model, seed=seed), self._vocabularies
            vocabularies = names.upstream if system.vocabulary == "upstream" else names.of_new_model(system)
            return Step(stage, f"untrained model seed {seed}", self._parts(vocabularies))
        if system.pretraining == "sampled":
            sampling = self.experiment.upstream.sampling
            return self._pretrain(f"pretrain on {corpus}, sampled", self._parts(self._vocabularies.upstream), sampling)
        if system.pretraining == "downstream-vocabulary":
            name = f"pretrain on {corpus} with the downstream vocabulary"
            vocabularies = self._vocabularies.on_changed_sides(self._vocabularies.of_new_model(system))
            return self._pretrain(name, self._parts(vocabularies))
        if system.pretraining == "joint-vocabulary":
            name = f"pretrain on {corpus} with a joint vocabulary"
            return self._pretrain(name, self._parts(self._vocabularies.on_changed_sides(self._vocabularies.joint)))
        if (updates := system.pretraining_step) is None:
            return self.pretrained
        saved = SavedWeightsStage(step=updates)
        return Step(saved, f"{self.pretrained.name}, {updates} updates", {"model": self.pretrained})

    def _parts(self, vocabularies: Mapping[SideName, Step]) -> dict[str, Step]:
        """The inputs of a new model: its vocabularies, and entities if it reads them."""
        entities = self._inputs.entities
        return {str(side): step for side, step in vocabularies.items()} | ({"entities": entities} if entities else {})

    @property
    def _languages(self) -> Languages:
        """The direction of upstream pairs. Text in all languages has none: one pretraining serves every task."""
        experiment, texts = self.experiment, self._inputs.upstream_corpus.stage.texts
        if experiment.upstream.languages != "all" or not texts:
            return experiment.upstream_languages
        first = next(iter(texts.values()))
        return Languages(source=first, target=first)

    def _pretrain(self, name: str, start: Mapping[str, Step], sampling: SamplingSettings | None = None) -> Step:
        """start: the inputs of a new model, or the model that is pretrained further."""
        experiment, upstream = self.experiment, self.experiment.upstream
        stage = PretrainStage(
            objectives=upstream.objectives,
            languages=self._languages,
            model=None if "model" in start else experiment.model,
            training=experiment.pretrain,
            seed=upstream.seed,
            sampling=sampling,
            language_exponent=language_exponent(upstream, self._inputs.base),
        )
        corpora: dict[str, Step] = {"corpus": self._inputs.upstream_corpus}
        corpora |= {f"corpus/{kind}": self._inputs.pairs_of(named) for kind, named in stage.further_corpora.items()}
        return with_engine(Step(stage, name, corpora | dict(start)))


def conditioned_step(inputs: InputSteps, system: System, seed: int, model: Step) -> Step:
    """The model conditioned on the task's source; the model itself if the system has no conditioning.

    Conditioning follows the transfer, so that the new parameters are the same for every vocabulary.
    """
    if system.conditioning is None:
        return model
    conditioned: Step = imported(CONDITIONED_STEP)(inputs, system, seed, model)
    return conditioned


def source_encoder_step(inputs: InputSteps, system: System, seed: int, model: Step) -> Step:
    """The model with a new encoder of the task's sources; the model itself if the system has none."""
    if system.source_encoder is None:
        return model
    corpus, settings = inputs.downstream_corpus, inputs.experiment.downstream.vocabulary
    vocabulary_stage = VocabularyStage(
        side="source", settings=VocabularySettings(**settings.model_dump(include=_VOCABULARY_FIELDS))
    )
    vocabulary = Step(vocabulary_stage, f"vocabulary of the sources of {corpus.name}", {"corpus": corpus})
    stage = SourceEncoderStage(layers=system.source_encoder.layers, seed=seed)
    labels, step_inputs = {"system": system.name, "seed": str(seed)}, {"model": model, "encoder": vocabulary}
    return Step(stage, f"source encoder {system.name} seed {seed}", step_inputs, labels)


def context_step(experiment: Experiment, system: System, seed: int, model: Step) -> Step:
    """The finetuned model of a system, with an encoder that reads the preceding sentences."""
    require_context(model, f"system {system.name}: context")
    stage = imported(CONTEXT_STAGE)(languages=experiment.languages, sentences=system.context_sentences, seed=seed)
    labels = {"system": system.name, "seed": str(seed)}
    return Step(stage, f"context {system.name} seed {seed}", {"model": model}, labels)


def multitask_step(inputs: InputSteps, system: System, seed: int, prepared: Step) -> Step[MultitaskStage] | None:
    """The training on several tasks of `prepared`, which has the system's vocabulary; None for a system without one.

    Systems that begin with the same model and seed share it.
    """
    experiment = inputs.experiment
    if system.multitask is None:
        return None
    assert experiment.multitask is not None and experiment.multitask_training is not None  # validation requires it
    tasks = experiment.multitask.tasks
    stage = MultitaskStage(
        languages=experiment.languages,
        training=experiment.multitask_training.finetuning(experiment.finetune),
        seed=seed,
        objective=experiment.objective_of(system),
        tasks={name: experiment.learnt_with(each) for name, each in tasks.items()},
    )
    corpora = {stage.corpus_of(name): inputs.corpus_of(each) for name, each in tasks.items()}
    step_inputs = {"model": prepared, "corpus": inputs.downstream_corpus, **corpora}
    labels = {"system": system.name, "seed": str(seed)}
    return Step(stage, f"multitask {system.name} seed {seed}", step_inputs, labels)
