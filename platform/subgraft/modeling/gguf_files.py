# mypy: allow-untyped-calls
"""Models in GGUF, llama.cpp's format: names of tensors, layouts, and conversion to a directory of transformers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from subgraft.base.errors import UserError
from subgraft.base.security.gguf_header import GgufFile, is_gguf, read_gguf
from subgraft.base.security.tokenizer_checks import as_user_error
from subgraft.modeling.config_file import read_validated_config
from subgraft.modeling.families import FAMILIES, Config, Family
from subgraft.modeling.families.gguf_layout import (
    LENGTH_FACTORS,
    LONG_FACTORS,
    ORIGINAL_LENGTH,
    ROPE_FACTORS,
    USE_TRANSFORMERS,
    GgufLayout,
    llama3_factors,
)
from subgraft.subwords.vocabulary.llama_cpp import ROLES, source_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

FILE = "model.gguf"  # of an export
# Llama 3's scaled positions, of which a GGUF has only the resulting factors: those of published models.
_FACTORS, _ORIGINAL_LENGTH = (8.0, 32.0), 8192


def require_gguf() -> None:
    """Raises UserError if the package that knows llama.cpp's files is not installed."""
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise UserError("the package gguf is not installed", hint="pip install 'subgraft[llamacpp]'") from error


def require_layout(family: Family, config: Config, where: str) -> GgufLayout:
    """The layout of a language model. Raises UserError if llama.cpp does not compute it. where: in messages."""
    if family.gguf is None or family.has_source:
        what = f"{family.model_type} models cannot be exported to GGUF, llama.cpp's format"
        what += ": its server runs no encoder-decoders" if family.generates and "encoder" in family.sides else ""
        raise UserError(what, where=where, hint=USE_TRANSFORMERS)
    try:
        family.gguf.settings(config)
    except KeyError:
        pass  # plans and config.json leave entries to transformers' defaults
    except UserError as error:
        raise UserError(error.what, where=error.where or where, hint=error.hint) from None
    return family.gguf


def gguf_names(architecture: str, layers: int) -> Callable[[str], str]:
    """The function from a tensor's name in transformers to its name in llama.cpp; it raises UserError without one."""
    import gguf

    (known,) = (number for number, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(known, layers)

    def name_of(own: str) -> str:
        name = names.get_name(own, try_suffixes=(".weight", ".bias"))
        if name is None:
            raise UserError(f"llama.cpp's {architecture} models have no place for {own}")
        return str(name)

    return name_of


def gguf_at(path: Path | str) -> Path | None:
    """The GGUF that a path names: the file, or that of a directory to which `export --to gguf` wrote."""
    path = Path(path)
    return next((file for file in (path, path / FILE) if is_gguf(file)), None)


def convert_gguf(path: Path, out: Path) -> int:
    """Write the model of a GGUF to an empty directory, as transformers and every command here read it.

    Weights become fp32. Returns the number of parameters.

    Raises:
        UserError: The file is damaged, or its architecture or vocabulary is not supported.
    """
    require_gguf()
    import torch
    from safetensors.torch import save_file

    with _as_user_error(path, out):
        file = read_gguf(path)
        family = _family(file)
        config, names = _checked(file, family, out)
        _tokenizer(file).save(out)
        layout, weights = family.gguf, dict[str, torch.Tensor]()
        assert layout is not None
        for own, name in names.items():
            weights[own] = layout.restored(own, torch.from_numpy(file.numbers(name)), config).contiguous()
        save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
        return sum(tensor.numel() for tensor in weights.values())


def described_model(path: Path) -> tuple[GgufFile, Family, dict[str, Any], Tokenizer]:
    """A GGUF, its family, config.json and tokenizer. Raises UserError as `convert_gguf` does."""
    require_gguf()
    with _as_user_error(path, path), tempfile.TemporaryDirectory() as folder:
        file = read_gguf(path)
        family = _family(file)
        config, _ = _checked(file, family, Path(folder))
        tokenizer = _tokenizer(file)
        if len(tokenizer) > config["vocab_size"]:
            raise UserError(f"{len(tokenizer):,} tokens, and embeddings of {config['vocab_size']:,}")
        return file, family, config, tokenizer


@contextmanager
def _as_user_error(path: Path, out: Path) -> Iterator[None]:
    """Raises UserError, with the path of the file, in place of any error of its entries."""
    try:
        yield
    except UserError as error:
        where = str(path) if not error.where or error.where.startswith(str(out)) else error.where
        raise UserError(error.what, where=where, hint=error.hint) from error
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        what = f"its entries describe no model that can be read ({type(error).__name__}: {error!s:.80})"
        raise UserError(what, where=str(path)) from error


def _checked(file: GgufFile, family: Family, out: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The configuration, which is written to `out`, and the file's name of each parameter.

    Raises UserError if the file's tensors are not those of the configuration.
    """
    import torch
    import transformers
    from transformers import AutoConfig

    (out / "config.json").write_text(json.dumps(_config(file, family), indent=2) + "\n", encoding="utf-8")
    config, layout = read_validated_config(out), family.gguf
    assert layout is not None
    layers = config[family.layers_key]
    if f"blk.{layers - 1}.attn_norm.weight" not in file.tensors:  # before a model of any depth is built
        raise UserError(f"the file lacks some of its {layers:,} layers")
    with torch.device("meta"), as_user_error("transformers makes no model of its entries"):
        settings = AutoConfig.for_model(**config)
        model: Any = getattr(transformers, family.transformers_class)(settings)
    name_of = gguf_names(layout.architecture, layers)
    names = {own: (name_of(own), tuple(tensor.shape)) for own, tensor in model.named_parameters()}
    factors = {ROPE_FACTORS} if "llama3" in layout.scaled_by_tensors else set(layout.further_tensors(config))
    if unread := file.tensors.keys() - {name for name, _ in names.values()} - factors:
        raise UserError(f"the tensor {min(unread):.60}, which is not supported")
    for own, (name, shape) in names.items():
        if name not in file.tensors:
            raise UserError(f"the file lacks {name}, which its architecture needs")
        stored = torch.empty(file.tensors[name].shape, device="meta")
        if layout.restored(own, stored, config).shape != shape:
            sizes = " × ".join(map(str, stored.shape))
            raise UserError(f"{name} has the shape {sizes}, which does not fit its entries")
    return config, {own: name for own, (name, _) in names.items()}


def _tokenizer(file: GgufFile) -> Tokenizer:
    with as_user_error("its vocabulary cannot be used"):
        return Tokenizer(source_of(_under("tokenizer.", file.entries)))


def _family(file: GgufFile) -> Family:
    architecture = file.entries.get("general.architecture")
    layouts = {family.gguf.architecture: family for family in reversed([*FAMILIES.values()]) if family.gguf}
    if not isinstance(architecture, str) or architecture not in layouts:
        what = f"a model of the architecture {architecture!r:.40}"
        hint = f"Supported are {', '.join(sorted(layouts))}."
        raise UserError(f"{what}, which is not supported", where=str(file.path), hint=hint)
    return layouts[architecture]


def _under(prefix: str, entries: Mapping[str, Any]) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in entries.items() if key.startswith(prefix)}


def _config(file: GgufFile, family: Family) -> dict[str, Any]:
    layout, vocabulary = family.gguf, _under("tokenizer.ggml.", file.entries)
    assert layout is not None
    settings = _under(f"{layout.architecture}.", file.entries)
    # A setting that is not read would make another model of it.
    unread = [key for key, value in settings.items() if key not in layout.keys and value]
    if unread:
        raise UserError(f"the entry {layout.architecture}.{unread[0]:.60}, which is not supported")
    settings["vocab_size"] = file.tensors["token_embd.weight"].shape[0]
    config = layout.config(settings, file.tensors)
    if ROPE_FACTORS in file.tensors and "llama3" in layout.scaled_by_tensors:
        config["rope_parameters"] |= _scaling(file, config, settings.get(ORIGINAL_LENGTH, _ORIGINAL_LENGTH))
    if LONG_FACTORS in file.tensors and "longrope" in layout.scaled_by_tensors:
        config["rope_parameters"] |= {own: file.numbers(name).tolist() for name, own in LENGTH_FACTORS.items()}
    roles = {role: vocabulary.get(f"{ROLES[role]}_token_id") for role in ("bos", "eos", "pad")}
    ids = {f"{role}_token_id": i for role, i in roles.items()}
    if "eot_token_id" in vocabulary and vocabulary["eot_token_id"] != ids["eos_token_id"]:
        ids["eos_token_id"] = [ids["eos_token_id"], vocabulary["eot_token_id"]]
    kind = {"model_type": family.model_type, "architectures": [family.transformers_class], "dtype": "float32"}
    return {**kind, **config, **ids}


def _scaling(file: GgufFile, config: Mapping[str, Any], original: int) -> dict[str, Any]:
    """The settings of Llama 3's scaled positions that make the factors in the file."""
    factors, base = file.numbers(ROPE_FACTORS), config["rope_parameters"]["rope_theta"]
    if np.all(factors == 1):
        return {}
    for factor in (*_FACTORS, float(factors.max())):
        settings = {"factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
        settings["original_max_position_embeddings"] = original
        expected = llama3_factors(config["head_dim"], base, settings).numpy()
        if expected.shape == factors.shape and np.allclose(expected, factors, rtol=1e-4):
            return {"rope_type": "llama3", **settings}
    raise UserError("its rotary positions are scaled by factors of no published Llama")
