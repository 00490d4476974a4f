"""The decoding engine of a step: CTranslate2 if configured and available for its models, else transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families import family_of
from subgraft.modeling.gguf_files import require_layout
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.corpora import BackTranslatedStage
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.pipeline.stages.training import FinetuneStage, PretrainStage
from subgraft.training.stage import S, Stage

if TYPE_CHECKING:
    from subgraft.modeling.families import Config


def with_engine(step: Step[S]) -> Step[S]:
    """The step, with transformers in place of CTranslate2 if that does not support its model.

    So a stage names the engine that in fact generates its texts. Raises UserError for a model that llama.cpp, which is
    never chosen but by name, does not support.
    """
    stage: Stage = step.stage
    if isinstance(stage, EvaluateStage):
        # Only transformers samples texts, predicts labels and ends outputs at another token than the model's.
        objective = stage.objective
        if stage.evaluation.engine == "llamacpp":
            config = config_of(step.inputs["model"])
            require_layout(family_of(config), config, "evaluation.engine llamacpp")
        transformers_only = objective.source is not None or objective.kind == "chat" or objective.understands
        transformers_only = transformers_only or objective.needs_documents
        if stage.evaluation.engine == "ctranslate2" and (transformers_only or not _is_supported(step.inputs["model"])):
            evaluation = stage.evaluation.model_copy(update={"engine": "transformers"})
            return _with_changes(step, evaluation=evaluation)
    elif isinstance(stage, BackTranslatedStage):
        if stage.engine == "ctranslate2" and not _is_supported(step.inputs["model"]):
            return _with_changes(step, engine="transformers")
    elif (
        isinstance(stage, FinetuneStage | PretrainStage)
        and stage.training.dev_engine == "ctranslate2"
        and not (_translates_on_dev(stage) and _is_supported(step))
    ):
        return _with_changes(step, training=stage.training.model_copy(update={"dev_engine": "transformers"}))
    return step


def left_to_transformers(configured: bool, steps: Sequence[Step]) -> list[str]:
    """A line if CTranslate2 is configured and some evaluations use transformers."""
    names = [
        step.name
        for step in steps
        if configured and isinstance(step.stage, EvaluateStage) and step.stage.evaluation.engine == "transformers"
    ]
    if not names:
        return []
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return [f"evaluation.engine: CTranslate2 has no such models, so transformers does: {listed}"]


def _with_changes(step: Step[S], **changes: Any) -> Step[S]:
    return replace(step, stage=step.stage.model_copy(update=changes))


def _translates_on_dev(stage: FinetuneStage | PretrainStage) -> bool:
    """Whether dev scores need translations, by a model without adapters, which CTranslate2 does not support."""
    if isinstance(stage, FinetuneStage):
        objective = stage.objective
        transformers_only = objective.understands or objective.needs_documents
        return objective.needs_pairs and not transformers_only and stage.training.train != "adapters"
    return any(objective.needs_pairs for objective in stage.objectives)


def require_context(model: Step, where: str) -> None:
    """Raises UserError if the model that a step makes cannot read preceding sentences. where: the setting."""
    config = config_of(model)
    try:
        family_of(config).with_context(config, 1, 0)
    except UserError as error:
        raise UserError(error.what, where=where, hint=error.hint) from None


def _is_supported(step: Step) -> bool:
    """Whether CTranslate2 supports the step's model."""
    config = config_of(step)
    return family_of(config).runs_in_ctranslate2(config)


def config_of(step: Step) -> Config:
    """config.json of the model that a step makes, with arbitrary vocabulary sizes."""
    return step.stage.config_after(_AnySize(step))


@dataclass(frozen=True)
class _AnySize:
    """Inputs with vocabularies of an arbitrary size, which does not affect what CTranslate2 supports."""

    step: Step
    corpus: None = None

    def __contains__(self, role: str) -> bool:
        return role in self.step.inputs

    def config(self, role: str) -> Config:
        return config_of(self.step.inputs[role])

    def vocabulary_size(self, role: str) -> int:
        del role
        return 100
