"""Nothing but checked safetensors of the directory itself is ever opened as weights."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from subgraft.base.errors import UserError
from subgraft.modeling.hub import HUB_FILES, IGNORED_ON_HUB
from subgraft.modeling.load import load_model, save_model
from toys import english_tokenizer, german_tokenizer, marian


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """A Marian whose weights lie in two files, with an index."""
    directory = tmp_path / "model"
    save_model(marian(), {"encoder": english_tokenizer(), "decoder": german_tokenizer()}, directory)
    tensors = load_file(directory / "model.safetensors")
    (directory / "model.safetensors").unlink()
    names = sorted(tensors)
    parts = {"one.safetensors": names[::2], "two.safetensors": names[1::2]}
    for name, inside in parts.items():
        save_file({key: tensors[key] for key in inside}, directory / name, metadata={"format": "pt"})
    write_index(directory, {key: name for name, inside in parts.items() for key in inside})
    return directory


def write_index(directory: Path, weight_map: object) -> None:
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


class Intruder:
    """Unpickling this makes a folder."""

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, ("unpickled",))


def test_an_index_of_plain_files_is_followed(sharded: Path) -> None:
    expected, result = marian().state_dict(), load_model(sharded).state_dict()
    assert all(torch.equal(result[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize(
    "name", ["w.txt", "pytorch_model.bin", "../outside.safetensors", "/etc/passwd", "a/b.safetensors", "", ".", 3, None]
)
def test_an_index_that_leads_elsewhere_is_refused(sharded: Path, name: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(sharded)
    (sharded / "w.txt").write_bytes(pickle.dumps(Intruder()))
    (sharded / "pytorch_model.bin").write_bytes(pickle.dumps(Intruder()))
    (sharded.parent / "outside.safetensors").write_bytes((sharded / "one.safetensors").read_bytes())
    write_index(sharded, {"model.shared.weight": name})
    with pytest.raises(UserError, match=r"index\.json: the index refers to"):
        load_model(sharded)
    assert not (sharded / "unpickled").exists()


@pytest.mark.parametrize("weight_map", [None, [], {}, ["one.safetensors"]])
def test_an_index_without_a_map_is_refused(sharded: Path, weight_map: object) -> None:
    write_index(sharded, weight_map)
    with pytest.raises(UserError, match="not an index of weights"):
        load_model(sharded)


def test_an_adapter_in_the_directory_is_not_loaded(sharded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own configuration there transformers would load it through PEFT, from a pickle."""
    monkeypatch.chdir(sharded)
    (sharded / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "/etc"}))
    (sharded / "adapter_model.bin").write_bytes(pickle.dumps(Intruder()))
    assert load_model(sharded).config.model_type == "marian"
    assert not (sharded / "unpickled").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"transformers_weights": "adapter_model.bin"},
        {"quantization_config": {"quant_method": "bitsandbytes"}},
        {"attn_implementation": "intruders/kernel"},
    ],
)
def test_a_configuration_that_leads_elsewhere_is_refused(sharded: Path, change: dict[str, object]) -> None:
    config = json.loads((sharded / "config.json").read_text())
    (sharded / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(UserError, match=f"config.json: {next(iter(change))}"):
        load_model(sharded)


def test_from_the_hub_come_named_files_and_safetensors_of_the_model_alone() -> None:
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

    wanted = ["config.json", "decoder/tokenizer.json", "vocab.txt", "source.spm", "model-00001-of-00002.safetensors"]
    others = [
        "w.txt",
        "adapter_config.json",
        "onnx/model.safetensors",
        "pytorch_model.bin",
        "modeling.py",
        "x/merges.txt",
    ]
    chosen = filter_repo_objects([*wanted, *others], allow_patterns=HUB_FILES, ignore_patterns=IGNORED_ON_HUB)
    assert sorted(chosen) == sorted(wanted)
