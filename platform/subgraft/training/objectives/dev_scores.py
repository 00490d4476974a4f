"""Helpers of dev scores: the engine that translates for them, and the drift of weights."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.settings_base import DecodingEngine
from subgraft.config.training import FinetuneSettings, ModelTrainingSettings, TrainingSettings
from subgraft.evaluation.metrics.parameter_drift import FEED_FORWARD, root_median_squared
from subgraft.modeling.families import family_of

# During the training of larger models, memory does not suffice for CTranslate2's copy of the weights.
LARGEST_COPIED = 250_000_000


def describe_dev_engine(settings: TrainingSettings, model: PreTrainedModel) -> dict[str, str]:
    """The decoding engine of dev scores for a record, if the settings do not name it."""
    named = isinstance(settings, ModelTrainingSettings) and settings.dev_engine != "auto"
    return {} if named else {"dev_engine": dev_engine(settings, model)}


def dev_engine(settings: TrainingSettings, model: PreTrainedModel) -> DecodingEngine:
    """The engine that translates for dev scores; `auto` selects the faster one if the model supports it."""
    named = settings.dev_engine if isinstance(settings, ModelTrainingSettings) else "transformers"
    if named != "auto":
        return named
    adapted = isinstance(settings, FinetuneSettings) and settings.train == "adapters"
    parameters = list(model.parameters())
    in_parts = any(hasattr(parameter, "ds_id") for parameter in parameters)
    if adapted or in_parts or torch.cuda.is_available() or find_spec("ctranslate2") is None:
        return "transformers"
    small = sum(parameter.numel() for parameter in parameters) <= LARGEST_COPIED
    return "ctranslate2" if small and family_of(model).runs_in_ctranslate2(model.config.to_dict()) else "transformers"


# Parts of a layer, as transformers names them in models of one stack. New attention to a source belongs to neither.
KINDS: Mapping[str, re.Pattern[str]] = {
    FEED_FORWARD: re.compile(r"\.mlp\."),
    "drift_attention": re.compile(r"\.(?:attn|self_attn)\."),
}


class Drift:
    """Distance of a pretrained language model's weights, by their kind, from those that it has now.

    It holds a copy of them in memory.
    """

    def __init__(self, model: nn.Module) -> None:
        stack = family_of(model).pretrained_stack(model)
        weights = {} if stack is None else {name: each for name, each in stack.named_parameters() if each.ndim == 2}
        self._now = {kind: [weights[name] for name in weights if form.search(name)] for kind, form in KINDS.items()}
        self._before = {kind: [_numbers(weight).copy() for weight in of_kind] for kind, of_kind in self._now.items()}

    def __call__(self) -> dict[str, float]:
        """The drift of each kind of weights; empty for a model that was not pretrained."""
        return {
            kind: root_median_squared(map(_numbers, self._now[kind]), before)
            for kind, before in self._before.items()
            if before
        }


def with_drift(scores: Callable[[], dict[str, float]], model: nn.Module) -> Callable[[], dict[str, float]]:
    """Dev scores that include the drift from the model's current weights."""
    drift = Drift(model)
    return lambda: {**scores(), **drift()}


def _numbers(weight: Tensor) -> np.ndarray:
    return weight.detach().float().cpu().numpy()
