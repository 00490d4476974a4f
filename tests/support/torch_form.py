"""Model directories as hubs had them before safetensors: weights in PyTorch's own form."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file

from subgraft.modeling.load import save_model
from toys import english_tokenizer, german_tokenizer, marian, mbart, multilingual_tokenizer


def published(place: Path, *, shards: int = 1, family: str = "marian") -> Path:
    """A small model whose weights are in pytorch_model.bin, or in shards with an index."""
    if family == "marian":
        save_model(marian(), {"encoder": english_tokenizer(), "decoder": german_tokenizer()}, place)
    else:
        save_model(mbart(), dict.fromkeys(("encoder", "decoder"), multilingual_tokenizer()), place)
    stored = place / "model.safetensors"
    weights = load_file(stored)
    stored.unlink()
    if shards == 1:
        torch.save(weights, place / "pytorch_model.bin")
        return place
    places: dict[str, str] = {}
    for number in range(shards):
        name = f"pytorch_model-{number + 1:05d}-of-{shards:05d}.bin"
        part = {key: value for i, (key, value) in enumerate(weights.items()) if i % shards == number}
        torch.save(part, place / name)
        places |= dict.fromkeys(part, name)
    (place / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return place


def compressed(weights: Mapping[str, torch.Tensor]) -> bytes:
    """The file that `torch.save` writes, with its parts compressed, which it never does."""
    sound, place = io.BytesIO(), io.BytesIO()
    torch.save(dict(weights), sound)
    with zipfile.ZipFile(sound) as parts, zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as written:
        for part in parts.infolist():
            written.writestr(part.filename, parts.read(part))
    return place.getvalue()


def nested_tuples(*, as_name: bool) -> bytes:
    """A dictionary whose one name or value is a tuple that holds another one twice, 60 deep: 2^60 tuples to visit."""
    tuples = b")q\x01" + b"".join(b"h%c\x86q%c" % (depth + 1, depth + 2) for depth in range(60))
    data = b"\x80\x02}q\x00" + (tuples + b"K\x01" if as_name else b"X\x01\x00\x00\x00a" + tuples) + b"s."
    if as_name:
        return data
    sound, place = io.BytesIO(), io.BytesIO()
    torch.save({"a": torch.ones(1)}, sound)
    with zipfile.ZipFile(sound) as parts, zipfile.ZipFile(place, "w") as written:
        for part in parts.infolist():
            written.writestr(part.filename, data if part.filename.endswith("data.pkl") else parts.read(part))
    return place.getvalue()
