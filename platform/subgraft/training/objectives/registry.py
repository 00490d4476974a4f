"""Every objective there is, by its kind in `config.objectives`: what makes it of its settings, a model and its text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from subgraft.config.objectives import ObjectiveSettings
from subgraft.training.objectives.causal import CausalObjective
from subgraft.training.objectives.denoising import denoise
from subgraft.training.objectives.masked import MaskedObjective
from subgraft.training.objectives.objective import Objective, Request
from subgraft.training.objectives.translation import TranslationObjective

OBJECTIVES: Mapping[str, Callable[[Any, Request], Objective]] = {
    "translation": TranslationObjective.of,
    "denoising": denoise,
    "masked": MaskedObjective.of,
    "causal": CausalObjective.of,
}


def objectives_of(settings: Sequence[ObjectiveSettings], request: Request) -> dict[str, Objective]:
    """Objectives on one model and its text, by kind."""
    return {each.kind: OBJECTIVES[each.kind](each, request) for each in settings}
