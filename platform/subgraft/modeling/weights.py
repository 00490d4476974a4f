"""The weights of a model directory: safetensors, checked before transformers reads any file.

Directories in other formats (adapters, GGUF, ONNX, …) are recognised, so that an error can say what to do with them.

transformers then gets a folder with these files only, so that it cannot load an adapter that names another model, a
checkpoint in another format, or files outside of the directory.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open

from subgraft.base.errors import UserError
from subgraft.base.files import folder_of
from subgraft.base.json_io import read_object
from subgraft.modeling.generation_settings import loadable

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
# PyTorch's pickle format, which only a conversion reads.
TORCH_WEIGHTS, TORCH_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
# No folders, no parent directories, no hidden files.
_PLAIN = re.compile(r"\w[\w.-]*")
# If the configuration has more than this many times the parameters of the files, most weights would be random.
_LARGEST_SHARE_MISSING = 4
_ALWAYS_ALLOWED = 1 << 26
ADAPTER = "adapter_config.json"
ADAPTER_WEIGHTS = "adapter_model.safetensors"
_ORIGINAL = "Give the model that it was made of, as transformers' save_pretrained writes it."


class _Form(NamedTuple):
    pattern: str
    what: str
    hint: str


_FORMS = (
    _Form(
        "*.gguf", "GGUF, llama.cpp's format, not a model in safetensors", "`subgraft convert FILE.gguf` converts it."
    ),
    _Form("subgraft.json", "a model exported to CTranslate2, which can only generate", _ORIGINAL),
    _Form("model.bin", "a CTranslate2 model, which cannot be trained or changed", _ORIGINAL),
    _Form("*.onnx", "ONNX, not a model in safetensors", _ORIGINAL),
    _Form("tf_model.h5", "TensorFlow's weights, not safetensors", _ORIGINAL),
    _Form("flax_model.msgpack", "Flax's weights, not safetensors", _ORIGINAL),
)


def weight_files(directory: Path, called: str = "") -> tuple[Path, ...]:
    """The files with a model's weights: model.safetensors, or those that its index names.

    called: the user's name for the model; by default its directory.

    Raises UserError if there are none, or if the index refers to anything but safetensors in this folder.
    """
    if (directory / WEIGHTS).is_file():
        return (directory / WEIGHTS,)
    if (directory / INDEX).is_file():
        return tuple(directory / name for name in sorted(set(read_index(directory / INDEX).values())))
    convertible = any((directory / name).is_file() for name in (TORCH_WEIGHTS, TORCH_INDEX))
    raise (None if convertible else other_form(directory, called)) or UserError(
        "no weights in safetensors format here",
        where=called or str(directory),
        hint=f"`subgraft convert {called or directory} --out DIR` converts a {TORCH_WEIGHTS}, and no other format.",
    )


def weight_names(directory: Path) -> tuple[str, ...]:
    """The names of a model's tensors."""
    if not (directory / WEIGHTS).is_file():
        weight_files(directory)
        return tuple(read_index(directory / INDEX))
    return tuple(_shapes(directory / WEIGHTS))


def torch_files(directory: Path) -> tuple[Path, ...]:
    """pytorch_model.bin, or the files in its index; none if there is neither.

    Raises UserError for an index that is invalid or refers to anything but .bin files in its folder.
    """
    if (directory / TORCH_WEIGHTS).is_file():
        return (directory / TORCH_WEIGHTS,)
    if not (directory / TORCH_INDEX).is_file():
        return ()
    return tuple(directory / name for name in sorted(set(read_index(directory / TORCH_INDEX).values())))


def read_index(path: Path) -> Mapping[str, str]:
    """The file of each tensor, by the tensor's name; all files are in the index's folder and of its format.

    Raises UserError for an index that is invalid or refers to any other file.
    """
    kind = Path(path.name.removesuffix(".index.json")).suffix
    files: Any = read_object(path).get("weight_map")
    if not isinstance(files, dict) or not files:
        raise UserError("not an index of weights: it has no weight_map", where=str(path))
    for name in files.values():
        if not (isinstance(name, str) and _PLAIN.fullmatch(name) and name.endswith(kind)):
            what = f"the index refers to {name!r:.100}, which is not a {kind} file next to it"
            raise UserError(what, where=str(path), hint="Nothing else is opened.")
        if not (path.parent / name).is_file():
            raise UserError(f"{name} is missing", where=str(path.parent))
    return files


def is_half(directory: Path) -> bool:
    """Whether a model is loaded in 16 bits: its configuration or else its weights say so, as in transformers."""
    config = read_object(directory / "config.json")
    named = config.get("dtype", config.get("torch_dtype"))
    if isinstance(named, str) and named != "auto":
        return named in ("float16", "bfloat16")
    with safe_open(weight_files(directory)[0], framework="numpy") as stored:
        types = (stored.get_slice(name).get_dtype() for name in stored.keys())  # noqa: SIM118
        return next((kind for kind in types if kind.startswith(("F", "BF"))), "F32") in ("F16", "BF16")


def require_complete(files: Iterable[Path]) -> None:
    """Raises UserError if a file is not as long as its header says. Only headers are read."""
    for path in files:
        _shapes(path)


def require_plausible(directory: Path, numbers: int) -> None:
    """Raises UserError if the files have so few of the configuration's `numbers` that most weights would be random."""
    stored = sum(math.prod(shape) for path in weight_files(directory) for shape in _shapes(path).values())
    if numbers > _LARGEST_SHARE_MISSING * stored + _ALWAYS_ALLOWED:
        what = f"config.json describes {numbers:,} parameters and positions, the weights hold {stored:,}"
        raise UserError(f"the weights cannot be loaded: {what}", where=str(directory))


def require_adapter_weights(adapter: Path) -> Path:
    """The weights of an adapter. Raises UserError where they are not in safetensors."""
    if not (adapter / ADAPTER_WEIGHTS).is_file():
        hint = "Save the adapter with peft's `save_pretrained`, which writes safetensors."
        raise UserError(f"no {ADAPTER_WEIGHTS} here", where=str(adapter), hint=hint)
    return adapter / ADAPTER_WEIGHTS


@contextmanager
def weights_alone(directory: Path, config: Mapping[str, Any]) -> Iterator[Path]:
    """A folder with only the checked weights, their index, the configuration, and the generation settings."""
    files: dict[str, Path | str] = {path.name: path for path in weight_files(directory)}
    generation = directory / "generation_config.json"
    if generation.is_file():
        files["config.json"] = json.dumps(config)
        files[generation.name] = json.dumps(loadable(read_object(generation), str(generation)))
    else:  # older models have generation settings in config.json
        files["config.json"] = json.dumps(loadable(config, str(directory / "config.json")))
    if WEIGHTS not in files:
        files[INDEX] = json.dumps({"metadata": {}, "weight_map": read_index(directory / INDEX)})
    with folder_of(files) as folder:
        yield folder


def _shapes(path: Path) -> dict[str, Sequence[int]]:
    """The shape of each tensor in a file, from its header, whose sizes and offsets safetensors validates."""
    try:
        with safe_open(path, framework="numpy") as stored:
            return {name: stored.get_slice(name).get_shape() for name in stored.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"the weights cannot be loaded: {error}", where=str(path.parent)) from error


def other_form(path: Path, called: str = "") -> UserError | None:
    """The error for a directory or file that is recognised as another format; None if it is not recognised.

    called: the user's name for it; by default its path.
    """
    where = called or str(path)
    if (path / ADAPTER).is_file():
        config = read_object(path / ADAPTER)
        kind, base = str(config.get("peft_type") or "")[:40], config.get("base_model_name_or_path")
        what = f"a PEFT adapter ({kind})" if kind else "a PEFT adapter"
        hint = "Only LoRA adapters can be merged (`subgraft convert`). Give the directory of a whole model."
        if kind.upper() == "LORA":
            what = "a LoRA adapter"
            hint = f"`subgraft convert {where} --base MODEL --out DIR` merges it into its model: give the result."
        of_base = f" of {base[:100]}" if isinstance(base, str) and base else ""
        return UserError(f"this is {what}{of_base}, not a whole model", where=where, hint=hint)
    for form in _FORMS:
        matches = [path] if path.is_file() and path.match(form.pattern) else sorted(path.glob(form.pattern))
        if matches:
            return UserError(f"this is {form.what} ({matches[0].name})", where=where, hint=form.hint)
    return None
