# mypy: allow-untyped-calls
"""LoRA adapters (Hu et al. 2022) that are trained here, by peft.

(alpha / rank) B A is added to each projection W of attention and feed-forward layers. B [outputs, rank] starts at zero,
so the adapted model starts equal to the original. Only A and B are trained. After training the products are merged
into W, and the model has its original shape.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from transformers import PreTrainedModel

from subgraft.config.training import AdapterSettings
from subgraft.modeling.families import family_of
from subgraft.modeling.load import load_model, save_model
from subgraft.modeling.lora import merge_into, require_peft, same_tying
from subgraft.modeling.tokenizers import load_tokenizers


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
        with warnings.catch_warnings(action="ignore"), same_tying(self._model):
            self._tuner.merge_and_unload()


def merge_adapter(adapter: Path, base: Path, out: Path) -> int:
    """Write the model `base` with a published LoRA adapter merged into its weights to `out`, an empty directory.

    Returns the number of adapted weight matrices. Raises UserError as `merge_into` does.
    """
    require_peft()
    merged, matrices = merge_into(load_model(base), adapter, base)
    save_model(merged, load_tokenizers(base), out)
    return matrices
