# mypy: allow-untyped-calls
"""Published LoRA adapters (Hu et al. 2022), merged into the model that they were trained on, by peft."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.base.files import folder_of
from subgraft.base.security.adapter_settings import lora_settings
from subgraft.modeling.weights import ADAPTER, require_adapter_weights


def require_peft() -> None:
    """Raises UserError if peft is not installed."""
    if find_spec("peft") is None:
        raise UserError("peft is not installed, which adapters need", hint="pip install 'subgraft[adapters]'.")


def merge_into(model: PreTrainedModel, adapter: Path, base: Path) -> tuple[PreTrainedModel, int]:
    """Merge a published LoRA adapter into the weights of a model, which must not be used afterwards.

    Args:
        model: The model that the adapter was trained on.
        adapter: A directory that peft's `save_pretrained` wrote, with safetensors.
        base: The model's directory, for messages.

    Returns:
        The merged model, and the number of adapted weight matrices.

    Raises:
        UserError: peft is not installed, the adapter is not a LoRA or has settings that name code, its weights are not
            in safetensors, or they do not fit the model.
    """
    require_peft()
    from peft import PeftModel

    settings = lora_settings(adapter / ADAPTER)
    files: dict[str, Path | str] = {ADAPTER: json.dumps(settings)}
    weights = require_adapter_weights(adapter)
    files[weights.name] = weights
    with folder_of(files) as folder, warnings.catch_warnings(record=True) as caught, same_tying(model):
        warnings.simplefilter("always")
        try:
            adapted = PeftModel.from_pretrained(model, str(folder), local_files_only=True)
            matrices: int = sum(name.endswith("lora_A") for name, _ in adapted.named_modules())
            merged: PreTrainedModel = adapted.merge_and_unload(safe_merge=True)
        except Exception as error:  # peft and torch raise anything at all
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            what = f"the adapter does not fit the model: {reason:.200}"
            raise UserError(what, where=str(adapter), hint=f"Is {base} the model that it was trained on?") from error
    if missing := [str(each.message) for each in caught if "missing adapter keys" in str(each.message)]:
        raise UserError(f"the adapter's weights are incomplete: {missing[0]:.200}", where=str(adapter))
    return merged, matrices


@contextmanager
def same_tying(model: PreTrainedModel) -> Iterator[None]:
    """Restore `tie_word_embeddings`: peft resets it, taking the embeddings of two sides for untied ones."""
    tied = getattr(model.config, "tie_word_embeddings", None)
    yield
    if tied is not None:
        model.config.tie_word_embeddings = tied
