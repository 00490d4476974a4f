"""Checkpoints in 16 bits are trained in fp32: everything is as if their weights had come in fp32."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from published import CHECKPOINTS
from small_experiments import finish, tiny
from toys import english

SYSTEMS = {
    "old": "vocabulary: upstream",
    "mean": "initialiser: mean",
    "token-distillation": "initialiser: token-distillation",
    "vocadt": "initialiser: vocadt",
    "likelihood-matching": "initialiser: likelihood-matching",
    "patt": "initialiser: patt, kd_weight: 0.5",
    "network": "initialiser: network",
}
TRAINING = "{max_steps: 3, batch_size: 500, max_length: 64, precision: fp32, dev_sentences: 2}"


def experiment(place: Path, model: Path, *systems: str) -> Path:
    place.mkdir()
    for split, count in (("train", 120), ("dev", 4), ("test", 4)):
        (place / f"{split}.en").write_text("".join(f"{line}\n" for line in english(count, 3)))
    listed = [f"{{name: {name}, {SYSTEMS[name]}}}" for name in systems]
    sections = {
        "task": "continuation",
        "languages": "{source: en, target: en}",
        "corpora": "{own: {folder: .}}",
        "upstream": f"{{checkpoint: {model}, corpus: own, objectives: [{{kind: causal}}]}}",
        "downstream": "{corpus: own, vocabulary: {kind: byte-level-bpe, size: 400}}",
        "finetune": f"{TRAINING[:-1]}, learning_rate: 1.0e-5}}",
        "systems": f"[{', '.join(listed)}]",
    }
    for name in ("token_distillation", "vocadt", "likelihood_matching", "generator", "network"):
        sections[f"{name}_training"] = TRAINING
    (place / "config.yaml").write_text(tiny(**sections))
    return place / "config.yaml"


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_training_is_that_of_the_same_weights_in_fp32(system: str, tmp_path: Path) -> None:
    half, single = tmp_path / "half", tmp_path / "single"
    for directory in (half, single):
        CHECKPOINTS["Qwen2.5-0.5B"].publish(directory)
    config = json.loads((single / "config.json").read_text(encoding="utf-8"))
    (single / "config.json").write_text(json.dumps({**config, "torch_dtype": "float32"}), encoding="utf-8")
    weights = {name: one.float() for name, one in load_file(single / "model.safetensors").items()}
    save_file(weights, single / "model.safetensors", metadata={"format": "pt"})
    results: list[dict[str, Any]] = []
    for directory in (half, single):
        pipeline, store = finish(experiment(tmp_path / f"with-{directory.name}", directory, system))
        results.append(load_file(store.path(pipeline.systems[0].finetune) / "model.safetensors"))
    assert {one.dtype for one in results[0].values()} == {torch.float32}
    assert results[0].keys() == results[1].keys()
    for name, one in results[0].items():
        # New rows are written in the type of the model, so that they differ by a rounding of 16 bits.
        assert torch.allclose(one, results[1][name], rtol=0 if system == "old" else 1e-2, atol=1e-3 * (system != "old"))
