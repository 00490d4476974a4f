# mypy: allow-untyped-calls
"""LoRA adapters (Hu et al. 2022) by peft; the only file that imports it.

(alpha / rank) B A is added to each projection W of attention and feed-forward layers. B [outputs, rank] starts at zero,
so the adapted model starts equal to the original. Only A and B are trained. After training the products are merged
into W, and the model has its original shape.
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
    """Raises UserError if peft is not installed."""
    if find_spec("peft") is None:
        raise UserError("peft is not installed, which train: adapters needs", hint="pip install 'subgraft[adapters]'.")


class Adapters:
    """Adapters in a model. The model is changed in place: it stays the same object, also after `merge`."""

    def __init__(self, model: PreTrainedModel, settings: AdapterSettings, seed: int) -> None:
        """Initialise A from the seed, without touching the global random state, and freeze all other parameters."""
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
        """Add the adapters to their projections and remove them from the model."""
        # peft takes tables of two sides for ones that ceased to be tied.
        tied = getattr(self._model.config, "tie_word_embeddings", None)
        with warnings.catch_warnings(action="ignore"):
            self._tuner.merge_and_unload()
        if tied is not None:
            self._model.config.tie_word_embeddings = tied
