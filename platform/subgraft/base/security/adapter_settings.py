# mypy: allow-untyped-calls
"""The settings of a published LoRA adapter that peft gets: known ones only, because others name code to import."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.base.json_io import read_object

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


def lora_settings(path: Path) -> dict[str, Any]:
    """The settings of an adapter_config.json for peft. Raises UserError for another kind and for other settings."""
    from peft import LoraConfig

    if not path.is_file():
        raise UserError(f"no {path.name} here", where=str(path.parent), hint="Give the directory of a LoRA adapter.")
    config, where = read_object(path), str(path)
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
