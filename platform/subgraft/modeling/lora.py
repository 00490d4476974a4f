# mypy: allow-untyped-calls
"""Published LoRA adapters (Hu et al. 2022), merged into the model that they were trained on, by peft."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.base.files import folder_of
from subgraft.base.json_io import read_object
from subgraft.modeling.weights import ADAPTER, require_adapter_weights

# Settings that define a published adapter. All others must have their defaults, because some name code to import.
_LORA = (
    *("peft_type", "r", "lora_alpha", "lora_dropout", "target_modules", "fan_in_fan_out", "bias", "use_rslora"),
    *("use_dora", "modules_to_save", "rank_pattern", "alpha_pattern", "layers_to_transform", "layers_pattern"),
)
# Settings that merging does not need.
_IGNORED = (
    *("peft_version", "base_model_name_or_path", "revision", "task_type", "inference_mode", "init_lora_weights"),
    "auto_mapping",
)
# Regular expressions, which peft compares with the names of all layers.
_PATTERNS = ("rank_pattern", "alpha_pattern", "layers_pattern")
_MOST_PATTERNS, _LONGEST_PATTERN = 4096, 256
_REPETITION = re.compile(r".?[*+{]")
_GROUP_END = re.compile(r"[)*+}]")
_UNSET: tuple[object, ...] = (None, False, {}, [], "")


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

    settings = _lora_settings(adapter)
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


def _lora_settings(adapter: Path) -> dict[str, Any]:
    """The settings of adapter_config.json that peft gets. Raises UserError for another kind and for other settings."""
    from peft import LoraConfig

    if not (adapter / ADAPTER).is_file():
        raise UserError(f"no {ADAPTER} here", where=str(adapter), hint="Give the directory of a LoRA adapter.")
    config, where = read_object(adapter / ADAPTER), str(adapter / ADAPTER)
    if str(config.get("peft_type")).upper() != "LORA":
        raise UserError(f"only LoRA adapters can be merged, found {config.get('peft_type')!r:.60}", where=where)
    defaults = LoraConfig().to_dict()
    others = {name: value for name, value in config.items() if name not in (*_LORA, *_IGNORED)}
    unknown = [name for name, value in others.items() if value not in (*_UNSET, defaults.get(name))]
    if unknown:
        raise UserError(f"adapters with the setting {unknown[0]!r:.60} cannot be merged", where=where)
    targets = config.get("target_modules")
    if not isinstance(targets, list) or not all(isinstance(each, str) for each in targets):
        raise UserError(f"target_modules: expected a list of names, found {targets!r:.60}", where=where)
    for name in _PATTERNS:
        _require_quick(name, config.get(name), where)
    return {name: value for name, value in config.items() if name in _LORA}


def _require_quick(name: str, value: Any, where: str) -> None:
    """Raises UserError for regular expressions that could take more than a moment for each name of a layer."""
    patterns = [value] if isinstance(value, str) else list(value or ())
    slow = [pattern for pattern in patterns if not isinstance(pattern, str) or not _is_quick(pattern)]
    if slow or len(patterns) > _MOST_PATTERNS:
        what = (
            f"{name}: {slow[0]!r:.60} is not the name of a layer" if slow else f"{name} has {len(patterns):,} entries"
        )
        hint = "At most one part of a name may be repeated, as in layers.*.q_proj."
        raise UserError(what, where=where, hint=hint)


def _is_quick(pattern: str) -> bool:
    """Whether a regular expression repeats at most one thing, which is a single character or class."""
    repeated = _REPETITION.findall(re.sub(r"\\.", "x", pattern))
    return len(pattern) <= _LONGEST_PATTERN and len(repeated) <= 1 and not any(map(_GROUP_END.match, repeated))
