"""The stage that evaluates models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from subgraft.config.corpora import Languages
from subgraft.config.evaluation import MeasurementSettings, RankingSettings
from subgraft.training.objectives.registry import TaskObjectiveSettings
from subgraft.training.objectives.translation import TranslationSettings
from subgraft.training.stage import Inputs, Stage, Summary

# Prefix of an evaluation's inputs with text of the languages that outputs may be in.
LANGUAGE_TEXT = "language/"
# A label of evaluations on another test set than the task's own.
TEST_SET = "test_set"

if TYPE_CHECKING:
    from subgraft.training.context import Context


class EvaluateStage(Stage):
    """An evaluation of a model on a corpus.

    Attributes:
        speed: Whether generation is timed.
        split: The split whose first `test_sentences` are translated.
        objective: The objective of the finetuning.
        packages: Package and version of each metric of a plugin.
        ranking: Of the sources of a model that writes for a source.
    """

    stage_name: ClassVar[str] = "evaluate"
    revision: ClassVar[int] = 3
    accelerated: ClassVar[bool] = True

    languages: Languages
    evaluation: MeasurementSettings
    speed: bool = True
    split: Literal["dev", "test"] = "test"
    objective: TaskObjectiveSettings = TranslationSettings()
    packages: dict[str, str] = Field(default_factory=dict)
    ranking: RankingSettings | None = None

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        from subgraft.pipeline.compute.evaluate import evaluate_model

        return evaluate_model(self, inputs, out, context)
