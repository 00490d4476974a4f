"""Model directories as hubs had them before safetensors: weights in PyTorch's own form."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file

from subgraft.models.load import save_model
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
