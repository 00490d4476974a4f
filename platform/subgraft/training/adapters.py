# mypy: allow-untyped-calls
"""Adapters (LoRA, Hu et al. 2022) in a model, by peft; the only file that imports it.

Beside each projection W of attention and feed-forward layers stands (alpha / rank) B A, where B [outputs, rank] begins
as zero, so that the model begins as it is. Only A and B are trained. In the end the products are added to their W, and
the model has the shape that it had.
"""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import torch
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.training import AdapterSettings
from subgraft.modeling.families import family_of


def require_peft() -> None:
    """Raises UserError where peft is not installed."""
    if find_spec("peft") is None:
        raise UserError("peft is not installed, which train: adapters needs", hint="pip install 'subgraft[adapters]'.")


class Adapters:
    """Adapters in a model, which is changed in place: it is the same object before, meanwhile and after."""

    def __init__(self, model: PreTrainedModel, settings: AdapterSettings, seed: int) -> None:
        """A is a function of the seed; the caller's random state is left as it was. All else is frozen."""
        require_peft()
        from peft import LoraConfig
        from peft.tuners.lora import LoraModel

        family = family_of(model)
        names = {projection.name for projection in family.projections(model.config.to_dict())}
        config = LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            lora_dropout=settings.dropout,
            target_modules=sorted(names),
            fan_in_fan_out=family.transposed,
        )
        self._model = model
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._tuner = LoraModel(model, config, "default")

    def merge(self) -> None:
        """Add the adapters to what they stand beside, and take them out of the model."""
        # peft takes tables of two sides for ones that ceased to be tied.
        tied = getattr(self._model.config, "tie_word_embeddings", None)
        with warnings.catch_warnings(action="ignore"):
            self._tuner.merge_and_unload()
        if tied is not None:
            self._model.config.tie_word_embeddings = tied
