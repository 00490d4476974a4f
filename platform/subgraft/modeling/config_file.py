"""Validation of config.json before a family or transformers reads it: known values, their types, and size limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.base.json_io import read_object
from subgraft.base.security.limits import MODEL_LABELS, MODEL_LAYERS, MODEL_POSITIONS, MODEL_WIDTH, PIECES, Limit
from subgraft.modeling.families import FAMILIES

# Entries with sizes, in addition to those that families declare as widths, layers, heads or positions.
_LAYERS = ("encoder_layers", "decoder_layers", "num_decoder_layers")
SIZES: Mapping[str, Limit] = {
    **{family.layers_key: MODEL_LAYERS for family in FAMILIES.values()},
    **{family.heads_key: MODEL_LAYERS for family in FAMILIES.values()},
    **{family.width_key: MODEL_WIDTH for family in FAMILIES.values()},
    **{family.inner_width_key: MODEL_WIDTH for family in FAMILIES.values()},
    **{family.positions_key: MODEL_POSITIONS for family in FAMILIES.values()},
    **dict.fromkeys(_LAYERS, MODEL_LAYERS),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "num_key_value_heads"), MODEL_LAYERS),
    **dict.fromkeys(("d_kv", "head_dim", "encoder_ffn_dim", "decoder_ffn_dim", "embedding_size"), MODEL_WIDTH),
    "num_labels": MODEL_LABELS,
    **dict.fromkeys(("n_ctx", "relative_attention_num_buckets", "relative_attention_max_distance"), MODEL_POSITIONS),
    **dict.fromkeys(("vocab_size", "decoder_vocab_size", "type_vocab_size"), PIECES),
}
# Models may have no layers, and no segments (DeBERTa).
_MAY_BE_ZERO = frozenset({*_LAYERS, "type_vocab_size", *(family.layers_key for family in FAMILIES.values())})
DTYPES = frozenset({"float32", "float16", "bfloat16", "float64"})
# Entries that make transformers load other files, code or packages.
UNSUPPORTED_ENTRIES = frozenset(
    {"quantization_config", "transformers_weights", "fusion_config", "kernel_config", "distributed_config", "gguf_file"}
)
# Other values may name kernels, which transformers would download.
_ATTENTION = ("attn_implementation", "_attn_implementation", "experts_implementation", "_experts_implementation")
_KNOWN_ATTENTION = (None, "eager", "sdpa")


def read_validated_config(directory: Path) -> dict[str, Any]:
    """The validated config.json of a directory that has one. Raises UserError naming the invalid entry."""
    path = directory / "config.json"
    config, where = read_object(path), str(path)
    for name, value in _named_values(config):
        if name in UNSUPPORTED_ENTRIES and value is not None:
            raise UserError(f"{name} is not supported: models are loaded from their safetensors only", where=where)
        if name in _ATTENTION and value not in _KNOWN_ATTENTION:
            raise UserError(f"{name} {value!r:.60} is not known: eager and sdpa are", where=where)
        if name in ("dtype", "torch_dtype") and not _is_dtype(value):
            hint = f"There is: {', '.join(sorted(DTYPES))}."
            raise UserError(f"{name} {value!r:.60} is not a type of weights", where=where, hint=hint)
        if name in ("id2label", "label2id") and isinstance(value, dict) and len(value) > MODEL_LABELS.value:
            raise UserError(f"{name} has {len(value):,} labels", where=where, hint=MODEL_LABELS.hint)
        if name == "chunk_size_feed_forward" and value not in (0, None):
            what = f"{name} is {value!r:.60}: layers that read their input in parts are not supported"
            raise UserError(what, where=where, hint="Set it to 0, which has the same results and needs more memory.")
        if name == "model_type" and not isinstance(value, str):
            raise UserError(f"model_type is {value!r:.60}, where a name is expected", where=where)
        if name in SIZES and value is not None:
            if isinstance(value, bool) or not isinstance(value, int) or value < (name not in _MAY_BE_ZERO):
                raise UserError(f"{name} is {value!r:.60}, where a number of them is expected", where=where)
            if value > SIZES[name].value:
                raise UserError(f"{name} is {value:,}", where=where, hint=SIZES[name].hint)
        if isinstance(value, int) and abs(value) >= 1 << 53:
            raise UserError(f"{name} is too large", where=where)
    return config


def _named_values(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its name, including the values of nested models."""
    if name:
        yield name, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _named_values(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _named_values(inner, f"{name}[]")


def _is_dtype(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_dtype, value.values()))
    return value is None or (isinstance(value, str) and value.removeprefix("torch.") in DTYPES)
