"""The steps that a system of an experiment takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from subgraft.config.experiment.systems import System
from subgraft.config.settings_base import SideName
from subgraft.orchestration.store.step import Step, in_order, made_by
from subgraft.pipeline.measurements.directions import SeenPairsStage
from subgraft.pipeline.stages.corpora import BackTranslatedStage
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.pipeline.stages.models import TransferStage
from subgraft.pipeline.stages.training import EmbeddingWarmupStage, FinetuneStage, MultitaskStage
from subgraft.training.stage import TrainedStage

SIDES: tuple[SideName, ...] = ("encoder", "decoder")


@dataclass(frozen=True)
class SystemSteps:
    """The steps of one system with one seed; pretraining, generator and transfer only if it has them.

    measured: the steps of the configured measurements, by part.  directions: the evaluations on each direction by its
    name, and seen: its test pairs in training text; empty without directions.
    """

    system: System
    seed: int
    pretrained: Step | None
    generator: Step | None
    transfer: Step[TransferStage] | None
    finetune: Step[FinetuneStage]
    evaluate: Step[EvaluateStage]
    measured: Mapping[str, Step]
    directions: Mapping[str, Step[EvaluateStage]]
    seen: Mapping[str, Step[SeenPairsStage]]

    @property
    def static(self) -> dict[SideName, Step]:
        """The static embeddings that the system uses, by side."""
        tables = {side: self.transfer.inputs.get(f"static/{side}") for side in SIDES} if self.transfer else {}
        return {side: step for side, step in tables.items() if step}

    @property
    def embedding_warmup(self) -> Step[EmbeddingWarmupStage] | None:
        """The training of only the new rows that precedes the finetuning."""
        return next(iter(made_by(EmbeddingWarmupStage, [self.finetune.inputs["model"]])), None)

    @property
    def multitask(self) -> Step[MultitaskStage] | None:
        """The training on several tasks that comes before the finetuning."""
        return next(iter(made_by(MultitaskStage, [self.finetune.inputs["model"]])), None)

    @property
    def by_sentence(self) -> Step[FinetuneStage] | None:
        """The finetuning on single sentences that precedes that of a model with context."""
        without_context = self.finetune.inputs["model"].inputs.get("model") if self.system.context else None
        return next(iter(made_by(FinetuneStage, [without_context])), None) if without_context else None

    @property
    def synthetic_data(self) -> list[Step]:
        """The trainings and translations behind the system's back-translated text, inputs first.

        The system's own pretraining is not among them, nor are the steps that made its new rows.
        """
        readers = [step for step in (self.finetune, self.embedding_warmup) if step]
        roles = ("synthetic", "synthetic/reversed")
        translations = made_by(
            BackTranslatedStage, (step.inputs[role] for step in readers for role in roles if role in step.inputs)
        )
        pretraining = {step.fingerprint for step in in_order(filter(None, (self.pretrained, self.transfer)))}
        costly = (BackTranslatedStage, TrainedStage)
        return [
            step
            for step in in_order(translations)
            if isinstance(step.stage, costly) and step.fingerprint not in pretraining
        ]

    @property
    def distilled(self) -> Step | None:
        """The training of the system's new tokens on the task's text."""
        return self.transfer.inputs.get("distilled") if self.transfer else None
