"""The systems of an experiment as runs in MLflow: their settings and steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from subgraft.orchestration.store.step import Step
from subgraft.orchestration.tracking.payloads import CORPUS, TEST, TRAINED, UPSTREAM_AFTER
from subgraft.orchestration.tracking.tracker import SystemRun

if TYPE_CHECKING:
    from subgraft.experiments.pipeline import Pipeline
    from subgraft.experiments.steps.system import SystemSteps


def system_runs(pipeline: Pipeline) -> list[SystemRun]:
    """A run for every system and seed."""
    return [
        SystemRun(steps.system.name, steps.seed, _settings(steps), _parts(steps), _corpora(steps))
        for steps in pipeline.systems
    ]


def _settings(steps: SystemSteps) -> dict[str, Any]:
    """Its own settings, and what its training, its vocabulary and all that made its new rows were asked for."""
    asked: dict[str, Step | None] = {
        "generator": steps.generator,
        "transfer": steps.transfer,
        "embedding_warmup": steps.embedding_warmup,
        "distilled": steps.distilled,
        "pretrained": steps.pretrained,
        **_vocabularies(steps),
    }
    return {
        **steps.system.model_dump(mode="json", exclude={"name"}),
        "seed": steps.seed,
        "finetune": steps.finetune.recipe.training.model_dump(mode="json"),
        TEST: steps.evaluate.recipe.evaluation.model_dump(mode="json"),
        **{role: step.recipe.model_dump(mode="json") for role, step in asked.items() if step},
    }


def _vocabularies(steps: SystemSteps) -> Mapping[str, Step]:
    inputs = steps.transfer.inputs if steps.transfer else {}
    return {role: step for role, step in inputs.items() if role.startswith("vocabulary/")}


def _parts(steps: SystemSteps) -> dict[str, Step]:
    measured = {
        TRAINED: steps.finetune,
        TEST: steps.evaluate,
        "likelihood": steps.likelihood,
        "intrinsic": steps.intrinsic,
        "upstream_before": steps.forgetting.get("upstream_before"),
        UPSTREAM_AFTER: steps.forgetting.get("upstream_after"),
    }
    return {part: step for part, step in measured.items() if step}


def _corpora(steps: SystemSteps) -> list[Step]:
    """What the finetuning reads; the text that another model made of it is none."""
    return [step for step in steps.finetune.inputs.values() if step.stage.name == CORPUS]
