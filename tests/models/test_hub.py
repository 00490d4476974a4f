"""Models from a hub on this machine, through the client that asks the real one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from hubs import COMMIT, Hub, hub
from subgraft.models.load import save_model
from toys import english_tokenizer, german_tokenizer, marian


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "toys" / "en-de"
    save_model(marian(), {"encoder": english_tokenizer(), "decoder": german_tokenizer()}, folder)
    return folder


@pytest.fixture
def served(model: Path, tmp_path: Path) -> Iterator[Hub]:
    """toys/en-de in safetensors, toys/old in PyTorch's form, toys/mamba of a family that is not known."""
    import torch

    folder = tmp_path / "hub" / "toys"
    for name in ("en-de", "old", "mamba"):
        shutil.copytree(model, folder / name)
    torch.save(load_file(folder / "old" / "model.safetensors"), folder / "old" / "pytorch_model.bin")
    (folder / "old" / "model.safetensors").unlink()
    config = json.loads((model / "config.json").read_text())
    (folder / "mamba" / "config.json").write_text(json.dumps({**config, "model_type": "mamba"}))
    (folder / "en-de" / "training.py").write_text("raise SystemExit('run')")
    save_file({}, folder / "en-de" / "encoder" / "other.safetensors")
    with hub(tmp_path / "hub") as server:
        yield server


def subgraft(server: Hub, place: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "HF_ENDPOINT": server.address,
        "HF_HUB_CACHE": str(place / "cache"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
    }
    command = [sys.executable, "-m", "subgraft", *arguments]
    return subprocess.run(
        command, env=environment, input=text, capture_output=True, text=True, check=False, cwd=place, timeout=240
    )


def test_a_model_is_fetched_without_what_is_not_asked_for(served: Hub, tmp_path: Path) -> None:
    ended = subgraft(served, tmp_path, "generate", "--model", "toys/en-de", "--languages", "en-de", text="the court\n")
    assert ended.returncode == 0, ended.stderr
    assert "model.safetensors" in served.fetched
    assert not {"training.py", "encoder/other.safetensors"} & set(served.fetched)


def test_a_family_that_is_not_known_costs_no_weights(served: Hub, tmp_path: Path) -> None:
    ended = subgraft(served, tmp_path, "generate", "--model", "toys/mamba", "--languages", "en-de", text="the court\n")
    assert ended.returncode == 2 and "'mamba' are not known" in ended.stderr
    assert served.fetched == ["config.json"]


def test_weights_in_pytorch_s_form_are_converted_by_a_command_of_its_own(served: Hub, tmp_path: Path) -> None:
    ended = subgraft(served, tmp_path, "generate", "--model", "toys/old", "--languages", "en-de", text="the court\n")
    assert ended.returncode == 2 and "subgraft convert toys/old --out DIR" in ended.stderr
    assert "pytorch_model.bin" not in served.fetched
    ended = subgraft(served, tmp_path, "convert", "toys/old", "--revision", COMMIT, "--out", str(tmp_path / "new"))
    assert ended.returncode == 0, ended.stderr
    assert "pytorch_model.bin" in served.fetched
    assert (tmp_path / "new" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("asked", "told"),
    [("toys/en-de", "no revision v7"), ("toys/nothing", "neither a directory nor a model on the hub")],
)
def test_what_the_hub_does_not_have(asked: str, told: str, served: Hub, tmp_path: Path) -> None:
    ended = subgraft(served, tmp_path, "convert", asked, "--revision", "v7", "--out", str(tmp_path / "new"))
    assert ended.returncode == 2 and told in ended.stderr
    assert not (tmp_path / "new").exists()
