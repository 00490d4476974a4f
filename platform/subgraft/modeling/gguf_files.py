# mypy: allow-untyped-calls
"""Models in GGUF, llama.cpp's format: bounded reading of a file, and conversion to a directory of transformers.

The header is checked here before any library sees the file: counts, lengths, nesting, and that every tensor lies
within the file. Nothing in a GGUF is code but a template of conversations, which is treated like any model's.
"""

from __future__ import annotations

import json
import math
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from subgraft.base.errors import UserError
from subgraft.base.security.limits import JSON_BYTES, PIECES
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
MAGIC, VERSIONS = b"GGUF", (2, 3)
# Published files have at most some hundred entries and a few thousand tensors; merges are three times the pieces.
_MAX_ENTRIES, _MAX_TENSORS, _MAX_NAME, _MERGES_OF_PIECE = 1 << 14, 1 << 17, 1 << 10, 4
_MAX_DIMENSIONS, _ALIGNMENT = 4, 32
_TEXT, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# Llama 3's scaled positions, of which a GGUF has only the resulting factors: those of published models.
_FACTORS, _ORIGINAL_LENGTH = (8.0, 32.0), 8192


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor is in the file. shape: as in transformers. kind: the number of its type."""

    shape: tuple[int, ...]
    kind: int
    start: int
    size: int


@dataclass(frozen=True)
class GgufFile:
    """The contents of a file, without the numbers of its tensors."""

    path: Path
    entries: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]

    def stored(self, name: str) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The bytes of a tensor, in the file."""
        tensor = self.tensors[name]
        return np.memmap(self.path, np.uint8, "r", tensor.start, (tensor.size,))

    def numbers(self, name: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        """A tensor in fp32."""
        import gguf

        stored = self.tensors[name]
        kind = gguf.GGMLQuantizationType(stored.kind)
        rows = self.stored(name).reshape(*stored.shape[:-1], -1)
        try:
            values = gguf.quants.dequantize(rows, kind)
        except NotImplementedError as error:
            raise UserError(f"{name} is of the type {kind.name}, which cannot be read", where=str(self.path)) from error
        return np.array(values, np.float32).reshape(stored.shape)


class _Reader:
    """Reads a header; refuses what is longer than the file or the limits."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self.size = path.stat().st_size

    def refused(self, what: str, hint: str = "") -> UserError:
        return UserError(f"not a sound GGUF file: {what}", where=str(self._path), hint=hint)

    def raw(self, count: int) -> bytes:
        if count > self.size - self._file.tell():
            raise self.refused("it is cut off")
        return self._file.read(count)

    def number(self, form: str) -> Any:
        return struct.unpack(f"<{form}", self.raw(struct.calcsize(f"<{form}")))[0]

    def text(self, limit: int) -> str:
        length = self.number("Q")
        if length > limit:
            raise self.refused(f"a text of {length:,} bytes")
        try:
            return self.raw(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.refused("a text that is not UTF-8") from error

    def value(self, kind: int) -> Any:
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text(JSON_BYTES.value)
        if kind != _ARRAY:
            raise self.refused(f"a value of the unknown type {kind}")
        of, count = self.number("I"), self.number("Q")
        if count > _MERGES_OF_PIECE * PIECES.value:
            raise self.refused(f"a list of {count:,} values", PIECES.hint)
        if of in _NUMBERS:
            form = _NUMBERS[of]
            return list(struct.unpack(f"<{count}{form}", self.raw(count * struct.calcsize(f"<{form}"))))
        if of != _TEXT:
            raise self.refused("lists of lists")
        return [self.text(_MAX_NAME << 6) for _ in range(count)]

    def position(self) -> int:
        return self._file.tell()


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


def is_gguf(path: Path | str) -> bool:
    """Whether a path is a file that begins like a GGUF; False for what no file can be called."""
    path = Path(path)
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(len(MAGIC)) == MAGIC
    return False


def gguf_at(path: Path | str) -> Path | None:
    """The GGUF that a path names: the file, or that of a directory to which `export --to gguf` wrote."""
    path = Path(path)
    return next((file for file in (path, path / FILE) if is_gguf(file)), None)


def read_gguf(path: Path) -> GgufFile:
    """Read and check a file's header. Raises UserError for what is not a sound GGUF within the limits."""
    if not path.is_file():
        raise UserError("no such file", where=str(path), hint="Give a GGUF file.")
    with path.open("rb") as file:
        reader = _Reader(file, path)
        if reader.raw(min(len(MAGIC), reader.size)) != MAGIC:
            raise reader.refused("it does not begin with GGUF")
        version, tensors, entries = reader.number("I"), reader.number("Q"), reader.number("Q")
        if version not in VERSIONS:
            raise reader.refused(f"version {version}; {VERSIONS[0]} and {VERSIONS[1]} are supported")
        if tensors > _MAX_TENSORS or entries > _MAX_ENTRIES:
            raise reader.refused(f"{tensors:,} tensors and {entries:,} entries")
        described: dict[str, Any] = {}
        for _ in range(entries):
            key = reader.text(_MAX_NAME)
            if key in described:
                raise reader.refused(f"{key!r:.60} is there twice")
            described[key] = reader.value(reader.number("I"))
        if described.get("split.count", 0) not in (0, 1):
            hint = "Join its parts: llama.cpp's `llama-gguf-split --merge FIRST OUT`."
            raise UserError("one part of a model in several files", where=str(path), hint=hint)
        return GgufFile(path, described, _tensors(reader, tensors, described.get("general.alignment", _ALIGNMENT)))


def _tensors(reader: _Reader, count: int, alignment: Any) -> dict[str, StoredTensor]:
    import gguf

    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 16:
        raise reader.refused(f"an alignment of {alignment!r:.20}")
    listed: list[tuple[str, tuple[int, ...], int, int]] = []
    for _ in range(count):
        name, dimensions = reader.text(_MAX_NAME), reader.number("I")
        if not 0 < dimensions <= _MAX_DIMENSIONS:
            raise reader.refused(f"{name!r:.60} has {dimensions:,} dimensions")
        shape = tuple(reader.number("Q") for _ in range(dimensions))[::-1]
        listed.append((name, shape, reader.number("I"), reader.number("Q")))
    first = -(-reader.position() // alignment) * alignment
    known = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    tensors: dict[str, StoredTensor] = {}
    for name, shape, kind, offset in listed:
        if kind not in known:
            raise reader.refused(f"{name!r:.60} is of the unknown type {kind}")
        block, size = known[kind]
        stored = math.prod(shape) // block * size
        if name in tensors or shape[-1] % block or not stored or first + offset + stored > reader.size:
            raise reader.refused(f"the tensor {name!r:.60} is outside of the file, or is there twice")
        tensors[name] = StoredTensor(shape, kind, first + offset, stored)
    return tensors


def convert_gguf(path: Path, out: Path) -> int:
    """Write the model of a GGUF to an empty directory, as transformers and every command here read it.

    Weights become fp32. Returns the number of parameters.

    Raises:
        UserError: The file is damaged, or its architecture or vocabulary is not supported.
    """
    require_gguf()
    with _as_user_error(path, out):
        file = read_gguf(path)
        return _convert(file, _family(file), out)


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


def _convert(file: GgufFile, family: Family, out: Path) -> int:
    import torch
    from safetensors.torch import save_file

    config, names = _checked(file, family, out)
    _tokenizer(file).save(out)
    layout, weights = family.gguf, dict[str, torch.Tensor]()
    assert layout is not None
    for own, name in names.items():
        weights[own] = layout.restored(own, torch.from_numpy(file.numbers(name)), config).contiguous()
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    return sum(tensor.numel() for tensor in weights.values())


def _checked(file: GgufFile, family: Family, out: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The configuration, which is written to `out`, and the file's name of each parameter.

    Raises UserError if the file's tensors are not those of the configuration.
    """
    import torch

    (out / "config.json").write_text(json.dumps(_config(file, family), indent=2) + "\n", encoding="utf-8")
    config, layout = read_validated_config(out), family.gguf
    assert layout is not None
    layers = config[family.layers_key]
    if f"blk.{layers - 1}.attn_norm.weight" not in file.tensors:  # before a model of any depth is built
        raise UserError(f"the file lacks some of its {layers:,} layers")
    names = _names(config, family)
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


def _names(config: Mapping[str, Any], family: Family) -> dict[str, tuple[str, tuple[int, ...]]]:
    """llama.cpp's name of each parameter of the model of a config.json, and the parameter's shape."""
    import torch
    import transformers
    from transformers import AutoConfig

    with torch.device("meta"), as_user_error("transformers makes no model of its entries"):
        settings = AutoConfig.for_model(**config)
        model: Any = getattr(transformers, family.transformers_class)(settings)
    assert family.gguf is not None
    names = gguf_names(family.gguf.architecture, config[family.layers_key])
    return {own: (names(own), tuple(tensor.shape)) for own, tensor in model.named_parameters()}
