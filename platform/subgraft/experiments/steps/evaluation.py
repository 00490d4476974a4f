"""Evaluations: scores on the task's test set and on each direction, measurements, the subword gap."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import cast

from subgraft.config.experiment.systems import System
from subgraft.config.plugins import METRICS, packages
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.experiments.steps.models import ModelSteps
from subgraft.experiments.steps.vocabularies import VocabularySteps
from subgraft.orchestration.store.step import Step, in_order
from subgraft.pipeline.measurements.directions import SeenPairsStage
from subgraft.pipeline.measurements.measurement import Subject
from subgraft.pipeline.measurements.registry import planned_steps
from subgraft.pipeline.stages.corpora import CORPORA
from subgraft.pipeline.stages.evaluation import LANGUAGE_TEXT, TEST_SET, EvaluateStage
from subgraft.pipeline.stages.models import TransferStage
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.pipeline.stages.vocabularies import GapStage


class EvaluationSteps:
    """Evaluations; optional ones only if the experiment configures them."""

    def __init__(self, inputs: InputSteps, vocabularies: VocabularySteps, models: ModelSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs
        self._vocabularies = vocabularies
        self._models = models

    @cached_property
    def gap(self) -> Step:
        """How the upstream vocabulary and the task's segment the task's text."""
        inputs = {
            "model": self._models.pretrained,
            "vocabulary": self._vocabularies.downstream["decoder"],
            "corpus": self._inputs.downstream_corpus,
        }
        inputs |= {"encoder": self._vocabularies.downstream["encoder"]} if "encoder" in self.experiment.sides else {}
        return Step(GapStage(), "subword gap", inputs)

    @cached_property
    def _texts_of_languages(self) -> dict[str, Step]:
        """Inputs with text of all languages, by which outputs in a wrong language are recognised.

        Empty unless systems might write one: with several directions, or without parallel training text.
        """
        experiment, inputs = self.experiment, self._inputs
        unsupervised = any(system.unsupervised for system in experiment.systems)
        if len(experiment.directions) < 2 and not unsupervised:
            return {}
        upstream = [inputs.upstream_corpus] if experiment.upstream.corpus else []
        texts = [inputs.text] if inputs.text else []
        steps = dict.fromkeys([inputs.downstream_corpus, *inputs.direction_corpora.values(), *texts, *upstream])
        return {f"{LANGUAGE_TEXT}{index:04}": step for index, step in enumerate(steps)}

    def scores(self, finetune: Step[FinetuneStage]) -> Step[EvaluateStage]:
        experiment, labels = self.experiment, finetune.labels
        by_document = finetune.stage.objective.needs_documents
        stage = EvaluateStage(
            languages=experiment.languages,
            evaluation=experiment.evaluation.measurement,
            objective=finetune.stage.objective if by_document else experiment.finetuned_on,
            packages=packages(METRICS, experiment.evaluation.metrics),
            ranking=experiment.evaluation.ranking if experiment.finetuned_on.source else None,
        )
        inputs = {"model": finetune, "corpus": self._inputs.downstream_corpus, **self._texts_of_languages}
        name = f"evaluate {labels['system']} seed {labels['seed']}"
        return with_engine(Step(stage, name, inputs, labels))

    def on_directions(self, finetune: Step, first: Step[EvaluateStage]) -> dict[str, Step[EvaluateStage]]:
        """An evaluation on each direction by its name; empty without directions.

        first: the evaluation on the first direction, the task's. On others, speed and calibration are not measured.
        """
        corpora, labels = self._inputs.direction_corpora, finetune.labels
        measurement = first.stage.evaluation.model_copy(update={"calibration": False})
        evaluations = dict[str, Step[EvaluateStage]]()
        for direction in self.experiment.directions:
            if corpora[direction.name] is self._inputs.downstream_corpus:
                evaluations[direction.name] = first
                continue
            changes = {"languages": direction.languages, "evaluation": measurement, "speed": False}
            name = f"evaluate {labels['system']} seed {labels['seed']} on {direction.name}"
            inputs = {"model": finetune, "corpus": corpora[direction.name], **self._texts_of_languages}
            step = Step(first.stage.model_copy(update=changes), name, inputs, {TEST_SET: direction.name, **labels})
            evaluations[direction.name] = with_engine(step)
        return evaluations

    def seen(self, finetune: Step) -> dict[str, Step[SeenPairsStage]]:
        """The test pairs of each direction that occur in the training text of the model and of those it starts from."""
        stage = SeenPairsStage(test_sentences=self.experiment.evaluation.test_sentences)
        texts = [step for step in in_order([finetune]) if isinstance(step.stage, CORPORA)]
        training = {
            f"training/{index}": step for index, step in enumerate(sorted(texts, key=lambda step: step.fingerprint))
        }
        return {
            name: Step(stage, f"test pairs of {name} in training text", {"corpus": corpus, **training})
            for name, corpus in self._inputs.direction_corpora.items()
        }

    def measured(
        self,
        system: System,
        pretrained: Step | None,
        transfer: Step[TransferStage] | None,
        finetune: Step[FinetuneStage],
    ) -> dict[str, Step]:
        """The steps of the measurements that the experiment configures, by part."""
        subject = Subject(
            experiment=self.experiment,
            system=system,
            pretrained=pretrained,
            transfer=transfer,
            finetune=finetune,
            upstream=self._models.pretrained,
            vocabulary=self._vocabularies.downstream["decoder"],
            upstream_corpus=self._inputs.upstream_corpus if self.experiment.upstream.corpus else None,
            downstream_corpus=self._inputs.downstream_corpus,
        )
        planned = planned_steps(subject)
        return {
            part: with_engine(Step(step.stage, step.name, cast("Mapping[str, Step]", step.inputs), step.labels))
            for part, step in planned.items()
        }
