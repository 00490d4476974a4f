"""Measurements: scores on the task's test set, likelihood, forgetting, rows of held-out tokens, the subword gap."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from subgraft.config.experiment.systems import System
from subgraft.config.plugins import METRICS, packages
from subgraft.embeddings.methods.registry import method_spec
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.experiments.steps.models import ModelSteps
from subgraft.experiments.steps.system import Moment
from subgraft.experiments.steps.vocabularies import VocabularySteps
from subgraft.orchestration.store.step import TEST_SET, Step, in_order
from subgraft.pipeline.stages.corpora import CORPORA
from subgraft.pipeline.stages.evaluation import (
    LANGUAGE_TEXT,
    EvaluateStage,
    IntrinsicStage,
    LikelihoodStage,
    SeenPairsStage,
)
from subgraft.pipeline.stages.models import MethodStage, TransferStage
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.pipeline.stages.vocabularies import GapStage
from subgraft.training.objectives.translation import TranslationSettings


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

    def likelihood(self, finetune: Step, labels: Mapping[str, str]) -> Step:
        """Bits of the test references; for every system, split by the new tokens of the same downstream vocabulary."""
        experiment = self.experiment
        stage = LikelihoodStage(languages=experiment.languages, test_sentences=experiment.evaluation.test_sentences)
        inputs = {
            "model": finetune,
            "corpus": self._inputs.downstream_corpus,
            "vocabulary": self._vocabularies.downstream["decoder"],
            "upstream": self._models.pretrained,
        }
        return Step(stage, finetune.name.replace("finetune", "likelihood of", 1), inputs, labels)

    def forgetting(self, system: System, seed: int, pretrained: Step | None, finetune: Step) -> dict[Moment, Step]:
        """The upstream test set, translated or continued by the system's initial model and by the finetuned one."""
        settings = self.experiment.evaluation
        on_text = self.experiment.finetuned_on.on_plain_text(self.experiment.upstream.objectives)
        if settings.upstream_sentences is None:
            return {}
        changes = {"test_sentences": settings.upstream_sentences, "calibration": False, "documents": False}
        if on_text is not None:  # bits are what is compared
            changes |= {"speed_sentences": 1, "speed_repeats": 1}
        stage = EvaluateStage(
            languages=self.experiment.upstream_languages,
            evaluation=settings.measurement.model_copy(update=changes),
            packages=packages(METRICS, settings.metrics),
            speed=False,
            objective=TranslationSettings() if on_text is None else on_text,
        )

        def evaluation_of(model: Step, **labels: str) -> Step:
            inputs = {"model": model, "corpus": self._inputs.upstream_corpus}
            name = f"evaluate {model.name} on the upstream test set"
            return with_engine(Step(stage, name, inputs, {TEST_SET: "upstream", **labels}))

        after = evaluation_of(finetune, system=system.name, seed=str(seed))
        evaluations: dict[Moment, Step] = {"upstream_after": after}
        if pretrained:
            evaluations["upstream_before"] = evaluation_of(pretrained)
        return evaluations

    def intrinsic(self, system: System, transfer: Step[TransferStage]) -> Step | None:
        """The quality of a transfer on held-out tokens, whose rows are known; it has the transfer's inputs."""
        sample = self.experiment.intrinsic
        if sample is None or method_spec(system.initialiser).learning:  # there, only new tokens' rows are learnt
            return None
        method: dict[str, Any] = {name: getattr(transfer.stage, name) for name in MethodStage.model_fields}
        stage = IntrinsicStage(**method, sample=sample)
        name = transfer.name.replace("transfer", "intrinsic quality of", 1)
        return Step(stage, name, transfer.inputs, transfer.labels)
