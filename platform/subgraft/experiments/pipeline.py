"""An experiment as steps, each a stage with inputs. Systems share all steps that they have in common."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from subgraft.config.experiment import Experiment
from subgraft.config.experiment.systems import System
from subgraft.config.settings_base import SideName
from subgraft.experiments.manifest import manifest
from subgraft.experiments.steps.additional_text import AdditionalTextSteps
from subgraft.experiments.steps.back_translation import BackTranslationSteps, UnsupervisedSteps
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.experiments.steps.embeddings import EmbeddingSteps
from subgraft.experiments.steps.evaluation import EvaluationSteps
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.experiments.steps.models import (
    ModelSteps,
    conditioned_step,
    context_step,
    multitask_step,
    source_encoder_step,
)
from subgraft.experiments.steps.system import SystemSteps
from subgraft.experiments.steps.vocabularies import VocabularySteps
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.models import TransferStage
from subgraft.pipeline.stages.report import ReportStage
from subgraft.pipeline.stages.training import FinetuneStage, FirstPhase, NewRows


class Pipeline:
    """All steps of an experiment, by what they make."""

    def __init__(self, experiment: Experiment, base: Path) -> None:
        """`base` is the folder of the configuration, to which its paths are relative."""
        self.experiment = experiment
        self.inputs = InputSteps(experiment, base)
        self.vocabularies = VocabularySteps(self.inputs)
        self.models = ModelSteps(self.inputs, self.vocabularies)
        self.additional_text = AdditionalTextSteps(self.inputs, BackTranslationSteps(self.inputs, self.models))
        self.embeddings = EmbeddingSteps(self.inputs, self.vocabularies, self.additional_text)
        self.unsupervised = UnsupervisedSteps(self.inputs)
        self.evaluation = EvaluationSteps(self.inputs, self.vocabularies, self.models)

    @cached_property
    def systems(self) -> tuple[SystemSteps, ...]:
        """Every system under every seed."""
        return tuple(self.system(system, seed) for system in self.experiment.systems for seed in self.experiment.seeds)

    @cached_property
    def report(self) -> Step[ReportStage]:
        """The last step, which depends on all others."""
        inputs = {
            **({"upstream_corpus": self.inputs.upstream_corpus} if self.experiment.upstream.corpus else {}),
            "downstream_corpus": self.inputs.downstream_corpus,
            "model": self.models.pretrained,
            "vocabulary": self.vocabularies.downstream["decoder"],
            "gap": self.evaluation.gap,
        }
        inputs |= {"text": self.inputs.text} if self.inputs.text else {}
        stage, system_inputs = manifest(self.experiment, self.systems)
        return Step(stage, "report", {**inputs, **system_inputs})

    def generator_of(self, system: System) -> Step | None:
        """The generator that a system needs; it does not depend on the task."""
        return self.embeddings.generator(system, self.models.untied(system, self.models.pretrained))

    def system(self, system: System, seed: int) -> SystemSteps:
        """The steps of any system, whether the experiment has it or not."""
        model = self.models.initial(system, seed)
        start = self.models.untied(system, model)
        generator = self.embeddings.generator(system, start)
        full_model = self.models.ready_to_translate(start)
        transfer = (
            self.embeddings.transfer(system, seed, full_model, generator)
            if self.experiment.vocabulary_mode(system)
            else None
        )
        prepared = self.additional_text.embedding_warmup(system, transfer, full_model) or transfer or full_model
        prepared = conditioned_step(self.inputs, system, seed, prepared)
        prepared = source_encoder_step(self.inputs, system, seed, prepared)
        if system.unsupervised:
            return self._with_evaluations(
                system, seed, model, generator, transfer, self.unsupervised.training(system, seed, prepared)
            )
        multitask = multitask_step(self.inputs, system, seed, prepared)
        if multitask is not None and system.multitask == "alone":
            finetune: Step[FinetuneStage] = multitask
        else:
            finetune = self._finetune(system, seed, multitask or prepared, full_model)
            if system.context is not None:
                in_context = context_step(self.experiment, system, seed, finetune)
                finetune = self._finetune(system, seed, in_context, full_model, in_context=True)
        return self._with_evaluations(system, seed, model, generator, transfer, finetune)

    def _with_evaluations(
        self,
        system: System,
        seed: int,
        model: Step,
        generator: Step | None,
        transfer: Step[TransferStage] | None,
        finetune: Step[FinetuneStage],
    ) -> SystemSteps:
        """The steps of a system with its evaluations; `model` is the one before any transfer."""
        pretrained = None if system.pretraining == "none" else model
        evaluate = self.evaluation.scores(finetune)
        return SystemSteps(
            system,
            seed,
            pretrained,
            generator,
            transfer,
            finetune,
            evaluate,
            self.evaluation.measured(system, pretrained, transfer, finetune),
            self.evaluation.on_directions(finetune, evaluate),
            self.evaluation.seen(finetune),
        )

    def _finetune(
        self, system: System, seed: int, prepared: Step, upstream: Step, *, in_context: bool = False
    ) -> Step[FinetuneStage]:
        """Finetune `prepared`, which has the system's vocabulary; `upstream` is the model before the transfer.

        in_context: whether a system with context reads it in this training.
        """
        by_sentence = system.context is not None and not in_context
        experiment, sides = self.experiment, self.experiment.sides
        training = system.finetuning(experiment.finetune)
        own_rate = training.new_embedding_learning_rate is not None
        needs_new_rows = own_rate or training.rare_tokens is not None or training.train == "new-rows"
        new_rows = NewRows(sides=sides, copy_shared_tokens=system.copy_shared_tokens) if needs_new_rows else None
        directions = experiment.trained_on(system)
        languages = [direction.languages for direction in directions] or [experiment.languages]
        stage = FinetuneStage(
            languages=languages[0],
            training=training,
            seed=seed,
            first_phase=_first_phase(system, sides),
            tie_to_sources=sides if system.tie_to_sources else (),
            embedding_learning_rate_sides=sides if training.applied_embedding_learning_rate is not None else (),
            new_rows=new_rows,
            objective=experiment.finetuned_on if by_sentence else experiment.objective_of(system),
            text_objective=self.additional_text.objective(system.text),
            drift=experiment.finetuned_on.source is not None,
            further_directions={direction.name: direction for direction in languages[1:]},
            direction_exponent=experiment.direction_exponent if languages[1:] else None,
            keeps_head=system.multitask is not None,
        )
        corpora: dict[str, Step] = {"corpus": self.inputs.downstream_corpus}
        corpora |= {
            stage.corpus_of(direction.name): self.inputs.direction_corpora[direction.name] for direction in directions
        }
        inputs = {"model": prepared, **corpora}
        inputs |= {"upstream": upstream} if system.tie_to_sources or new_rows else {}
        inputs |= self.additional_text.inputs_for(system, system.text)
        labels = {"system": system.name, "seed": str(seed)}
        name = f"finetune {system.name} seed {seed}" + (", by sentence" if by_sentence else "")
        return with_engine(Step(stage, name, inputs, labels))


def _first_phase(system: System, sides: tuple[SideName, ...]) -> FirstPhase | None:
    if system.source_encoder is not None:
        return FirstPhase(share=system.source_encoder.first_step_fraction)
    return FirstPhase(share=system.embeddings_only_fraction, sides=sides) if system.embeddings_only_fraction else None
