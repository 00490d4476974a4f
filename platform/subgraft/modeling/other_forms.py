"""Directories that hold something else than a whole model in safetensors, told by their files: what, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from subgraft.base.errors import UserError
from subgraft.base.json_io import read_object

ADAPTER = "adapter_config.json"
_ORIGINAL = "Give the model that it was made of, as transformers' save_pretrained writes it."


class _Form(NamedTuple):
    pattern: str
    what: str
    hint: str


_FORMS = (
    _Form("*.gguf", "GGUF, llama.cpp's form of a model, and no model in safetensors", _ORIGINAL),
    _Form("subgraft.json", "a model exported to CTranslate2, which can only be generated with", _ORIGINAL),
    _Form("model.bin", "a CTranslate2 model, which cannot be trained or changed", _ORIGINAL),
    _Form("*.onnx", "ONNX, and no model in safetensors", _ORIGINAL),
    _Form("tf_model.h5", "TensorFlow's weights, and none in safetensors", _ORIGINAL),
    _Form("flax_model.msgpack", "Flax's weights, and none in safetensors", _ORIGINAL),
)


def other_form(place: Path, called: str = "") -> UserError | None:
    """What to raise for a directory, or a file, that is recognised as no whole model; None where it is not recognised.

    called: how the user names it; by default as its path.
    """
    where = called or str(place)
    if (place / ADAPTER).is_file():
        return _adapter(read_object(place / ADAPTER), where)
    for form in _FORMS:
        found = [place] if place.is_file() and place.match(form.pattern) else sorted(place.glob(form.pattern))
        if found:
            return UserError(f"this is {form.what} ({found[0].name})", where=where, hint=form.hint)
    return None


def _adapter(config: dict[str, Any], where: str) -> UserError:
    kind, base = str(config.get("peft_type") or "")[:40], config.get("base_model_name_or_path")
    named = "a LoRA adapter" if kind.upper() == "LORA" else f"a PEFT adapter ({kind})" if kind else "a PEFT adapter"
    of = f" of {base[:100]}" if isinstance(base, str) and base else ""
    return UserError(
        f"this is {named}{of}, and no whole model",
        where=where,
        hint="Merge it into its model with peft (`merge_and_unload`, then `save_pretrained`), and give the result.",
    )
