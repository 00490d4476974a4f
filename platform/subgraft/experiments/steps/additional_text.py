"""The additional text that finetunings read: monolingual text itself or pairs made of it."""

from __future__ import annotations

from functools import cached_property

from subgraft.config.experiment.systems import System
from subgraft.config.synthetic import MADE_PAIRS, TextUse
from subgraft.experiments.steps.back_translation import BackTranslationSteps
from subgraft.experiments.steps.decoding_engine import with_engine
from subgraft.experiments.steps.inputs import InputSteps
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.corpora import CopiedStage
from subgraft.pipeline.stages.models import TransferStage
from subgraft.pipeline.stages.training import EmbeddingWarmupStage, NewRows
from subgraft.training.objectives.registry import TaskObjectiveSettings
from subgraft.training.objectives.translation import TranslationSettings


class AdditionalTextSteps:
    """Copied, back-translated and monolingual text; systems that read the same text share its steps."""

    def __init__(self, inputs: InputSteps, back_translation: BackTranslationSteps) -> None:
        self.experiment = inputs.experiment
        self._inputs = inputs
        self._back_translation = back_translation

    def objective(self, use: TextUse | None) -> TaskObjectiveSettings | None:
        """The objective of the additional text for this use; None without one."""
        experiment = self.experiment
        if use == "denoised":
            return next(candidate for candidate in experiment.upstream.objectives if candidate.denoises)
        if use == "lines":
            return experiment.finetuned_on
        return None if use is None else TranslationSettings()

    def inputs_for(self, system: System, use: TextUse | None) -> dict[str, Step]:
        """The input with the additional text for this use by a system; empty without one."""
        if use is None:
            return {}
        if use in MADE_PAIRS:
            back_translated = self._back_translation.pairs
            return {"synthetic": self._copied if use == "copied" else back_translated(self.experiment.rounds(system))}
        assert self._inputs.text is not None  # validation requires it
        return {"text": self._inputs.text}

    def embedding_warmup(self, system: System, transfer: Step[TransferStage] | None, upstream: Step) -> Step | None:
        """The training of a system's new rows alone, shared by systems and seeds with the same initial rows.

        `upstream` is the model before the transfer, by which rows count as new.
        """
        experiment, training = self.experiment, self.experiment.embedding_warmup_training
        if system.embedding_warmup is None or transfer is None or training is None:
            return None
        stage = EmbeddingWarmupStage(
            languages=experiment.languages,
            training=training.finetuning,
            seed=experiment.upstream.seed,
            new_rows=NewRows(sides=experiment.sides, copy_shared_tokens=system.copy_shared_tokens),
            objective=experiment.finetuned_on,
            text_objective=self.objective(system.embedding_warmup),
        )
        inputs = {"model": transfer, "corpus": self._inputs.downstream_corpus, "upstream": upstream}
        inputs |= self.inputs_for(system, system.embedding_warmup)
        name = transfer.name.replace("transfer", "rows first of", 1)
        return with_engine(Step(stage, name, inputs, transfer.labels))

    @property
    def copies(self) -> dict[str, Step]:
        """The input `synthetic` of steps that learn a decoder's rows: target text, copied as its own sources."""
        return {"synthetic": self._copied} if self._inputs.text_on("target") else {}

    @cached_property
    def _copied(self) -> Step[CopiedStage]:
        """The same lines for all systems and seeds."""
        experiment, text = self.experiment, self._inputs.text
        assert text is not None  # validation requires it
        stage = CopiedStage(
            languages=experiment.languages, copied=experiment.copied_text, seed=experiment.upstream.seed
        )
        return Step(stage, "copied text", {"text": text})
