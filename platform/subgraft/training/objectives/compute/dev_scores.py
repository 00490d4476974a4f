"""Helpers of dev scores: the engine that translates for them, and the drift of weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.settings_base import TranslationEngine
from subgraft.config.training import FinetuneSettings, ModelTrainingSettings, TrainingSettings
from subgraft.evaluation.metrics.parameter_drift import FEED_FORWARD, root_median_squared
from subgraft.modeling.families import family_of

# During the training of larger models, memory does not suffice for CTranslate2's copy of the weights.
LARGEST_COPIED = 250_000_000


def describe_dev_engine(settings: TrainingSettings, model: PreTrainedModel) -> dict[str, str]:
    """The entry of a record for the decoding engine of dev scores; empty if the settings name the engine."""
    is_configured = isinstance(settings, ModelTrainingSettings) and settings.dev_engine != "auto"
    return {} if is_configured else {"dev_engine": dev_engine(settings, model)}


def dev_engine(settings: TrainingSettings, model: PreTrainedModel) -> TranslationEngine:
    """The engine that translates for dev scores; `auto` selects the faster one if the model supports it."""
    configured = settings.dev_engine if isinstance(settings, ModelTrainingSettings) else "transformers"
    if configured != "auto":
        return configured
    adapted = isinstance(settings, FinetuneSettings) and settings.train == "adapters"
    parameters = list(model.parameters())
    is_sharded = any(hasattr(parameter, "ds_id") for parameter in parameters)
    if adapted or is_sharded or torch.cuda.is_available() or find_spec("ctranslate2") is None:
        return "transformers"
    small = sum(parameter.numel() for parameter in parameters) <= LARGEST_COPIED
    return "ctranslate2" if small and family_of(model).runs_in_ctranslate2(model.config.to_dict()) else "transformers"


# The parts of a layer, as transformers names them in models of one stack. Cross-attention belongs to neither.
KINDS: Mapping[str, re.Pattern[str]] = {
    FEED_FORWARD: re.compile(r"\.mlp\."),
    "drift_attention": re.compile(r"\.(?:attn|self_attn)\."),
}


class Drift:
    """Measures how far a pretrained language model's weights move from their values at construction, by kind.

    A copy of these values stays in memory.
    """

    def __init__(self, model: nn.Module) -> None:
        stack = family_of(model).pretrained_stack(model)
        weights = (
            {} if stack is None else {name: weight for name, weight in stack.named_parameters() if weight.ndim == 2}
        )
        self._current = {
            kind: [weights[name] for name in weights if pattern.search(name)] for kind, pattern in KINDS.items()
        }
        self._initial = {
            kind: [_to_numpy(weight).copy() for weight in weights_of_kind]
            for kind, weights_of_kind in self._current.items()
        }

    def __call__(self) -> dict[str, float]:
        """The drift of each kind of weights; empty for a model that was not pretrained."""
        return {
            kind: root_median_squared(map(_to_numpy, self._current[kind]), initial)
            for kind, initial in self._initial.items()
            if initial
        }


def with_drift(scores: Callable[[], dict[str, float]], model: nn.Module) -> Callable[[], dict[str, float]]:
    """Add to dev scores the drift from the model's current weights."""
    drift = Drift(model)
    return lambda: {**scores(), **drift()}


def _to_numpy(weight: Tensor) -> np.ndarray:
    return weight.detach().float().cpu().numpy()
