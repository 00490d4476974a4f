"""All pretraining objectives, by their kind in `config.objectives`."""

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
    """The configured objectives on one model and its text, by kind."""
    return {each.kind: OBJECTIVES[each.kind](each, request) for each in settings}
