"""Models from a hub on this machine, through the client that asks the real one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from hubs import COMMIT, Hub, PullRequest, hub
from small_experiments import tiny, written
from subgraft.modeling.load import load_model, save_model
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


# What the step of a checkpoint is made from.
RECIPE = """
import sys
from pathlib import Path
from subgraft.config.loading import load
from subgraft.config.experiment import Experiment
from subgraft.experiments.pipeline import Pipeline

config = Path(sys.argv[1])
recipe = Pipeline(load(config, Experiment), config.parent).inputs.checkpoint.stage
print('{"digest": "%s", "model": "%s"}' % (recipe.digest, recipe.model))
"""


def subgraft(server: Hub, place: Path, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **served_at(server, place)}
    command = [sys.executable, "-m", "subgraft", *arguments]
    return subprocess.run(
        command, env=environment, input=text, capture_output=True, text=True, check=False, cwd=place, timeout=240
    )


def served_at(server: Hub, place: Path) -> dict[str, str]:
    return {
        "HF_ENDPOINT": server.address,
        "HF_HUB_CACHE": str(place / "cache"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": "0",
    }


def test_a_model_is_fetched_without_what_is_not_asked_for(served: Hub, tmp_path: Path) -> None:
    ended = subgraft(served, tmp_path, "generate", "--model", "toys/en-de", "--languages", "en-de", text="the court\n")
    assert ended.returncode == 0, ended.stderr
    assert "model.safetensors" in served.fetched
    assert not {"training.py", "encoder/other.safetensors"} & set(served.fetched)


def test_a_family_that_is_not_known_costs_no_weights(served: Hub, tmp_path: Path) -> None:
    ended = subgraft(served, tmp_path, "generate", "--model", "toys/mamba", "--languages", "en-de", text="the court\n")
    assert ended.returncode == 2 and "'mamba' are not supported" in ended.stderr
    assert served.fetched == ["config.json"]


@pytest.mark.slow
def test_weights_in_pytorch_s_form_are_converted_by_a_command_of_its_own(served: Hub, tmp_path: Path) -> None:
    ended = subgraft(served, tmp_path, "generate", "--model", "toys/old", "--languages", "en-de", text="the court\n")
    assert ended.returncode == 2 and "subgraft convert toys/old --out DIR" in ended.stderr
    assert "pytorch_model.bin" not in served.fetched
    ended = subgraft(served, tmp_path, "convert", "toys/old", "--revision", COMMIT, "--out", str(tmp_path / "new"))
    assert ended.returncode == 0, ended.stderr
    assert "pytorch_model.bin" in served.fetched
    assert (tmp_path / "new" / "model.safetensors").is_file()


def test_a_vocabulary_needs_no_known_family_and_no_weights(served: Hub, tmp_path: Path) -> None:
    folder = served.folder / "toys" / "state-space"
    german_tokenizer().save(folder)
    (folder / "config.json").write_text('{"model_type": "state-space"}')
    (folder / "model.safetensors").write_bytes(b"never read")
    ended = subgraft(served, tmp_path, "vocab", "compare", "toys/state-space", str(folder))
    assert ended.returncode == 0, ended.stderr
    assert "model.safetensors" not in served.fetched


@pytest.fixture
def requested(served: Hub, model: Path) -> Path:
    """The repository toys/old with a pull request in it: the same model, in safetensors."""
    folder = served.folder.parent / "request"
    shutil.copytree(model, folder)
    return folder


def test_the_hub_s_own_conversion_is_taken_and_reported(served: Hub, requested: Path, tmp_path: Path) -> None:
    served.requests["toys/old"] = PullRequest(requested, ("SFconvertbot", "SFconvertbot"))
    ended = subgraft(served, tmp_path, "generate", "--model", "toys/old", "--languages", "en-de", text="the court\n")
    assert ended.returncode == 0, ended.stderr
    assert f"toys/old: weights of SFconvertbot's pull request 1, commit {'f' * 40}" in ended.stderr
    assert "pytorch_model.bin" not in served.fetched


@pytest.mark.parametrize(
    ("authors", "parent"),
    [
        pytest.param(("somebody", "SFconvertbot"), COMMIT, id="of somebody", marks=pytest.mark.slow),
        pytest.param(("SFconvertbot", "somebody"), COMMIT, id="changed by somebody"),
        pytest.param(("SFconvertbot", "SFconvertbot"), "e" * 40, id="of an older state", marks=pytest.mark.slow),
    ],
)
def test_no_other_pull_request_is_taken(
    authors: tuple[str, str], parent: str, served: Hub, requested: Path, tmp_path: Path
) -> None:
    served.requests["toys/old"] = PullRequest(requested, authors, parent)
    ended = subgraft(served, tmp_path, "generate", "--model", "toys/old", "--languages", "en-de", text="the court\n")
    assert ended.returncode == 2 and "subgraft convert toys/old --out DIR" in ended.stderr
    assert "model.safetensors" not in served.fetched


@pytest.mark.parametrize("named", ["toys/en-de@v1", pytest.param(f"toys/en-de@{COMMIT}", marks=pytest.mark.slow)])
def test_an_id_may_name_its_revision(named: str, served: Hub, tmp_path: Path) -> None:
    ended = subgraft(served, tmp_path, "generate", "--model", named, "--languages", "en-de", text="the court\n")
    assert ended.returncode == 0, ended.stderr


def test_an_id_may_not_name_a_revision_that_is_not_there(served: Hub, tmp_path: Path) -> None:
    ended = subgraft(served, tmp_path, "generate", "--model", "toys/en-de@v7", "--languages", "en-de", text="a\n")
    assert ended.returncode == 2 and "no revision v7" in ended.stderr


def test_a_checkpoint_of_the_hub_is_recorded_with_its_commit(served: Hub, tmp_path: Path) -> None:
    changes = {
        "upstream": "{checkpoint: toys/en-de, revision: v1}",
        "systems": "[{name: old, vocabulary: upstream}]",
        "finetune": "{max_length: 32}",
    }
    config = written(tmp_path, tiny(**changes))
    ended = subgraft(served, tmp_path, "plan", str(config))
    assert ended.returncode == 0, ended.stderr
    result = subprocess.run(
        [sys.executable, "-c", RECIPE, str(config)],
        env={**os.environ, **served_at(served, tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(result.stdout) == {"digest": f"toys/en-de@{COMMIT}", "model": f"toys/en-de@{COMMIT}"}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        pytest.param("toys/en-de", "no revision v7", marks=pytest.mark.slow),
        ("toys/nothing", "neither a directory nor a model on the hub"),
    ],
)
def test_what_the_hub_does_not_have(asked: str, message: str, served: Hub, tmp_path: Path) -> None:
    ended = subgraft(served, tmp_path, "convert", asked, "--revision", "v7", "--out", str(tmp_path / "new"))
    assert ended.returncode == 2 and message in ended.stderr
    assert not (tmp_path / "new").exists()


def test_an_adapter_and_its_base_are_fetched(served: Hub, model: Path, tmp_path: Path) -> None:
    """Of the adapter its settings and weights, of the base that it names the whole model."""
    from peft import LoraConfig, get_peft_model

    adapted: Any = get_peft_model(load_model(model), LoraConfig(r=2, target_modules=["fc1"], init_lora_weights=False))
    folder = tmp_path / "hub" / "toys" / "adapter"
    adapted.save_pretrained(folder)
    settings = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps({**settings, "base_model_name_or_path": "toys/en-de"}))
    (folder / "other.safetensors").write_bytes(b"")
    ended = subgraft(
        served, tmp_path, "generate", "--model", "toys/adapter", "--languages", "en-de", text="the court\n"
    )
    assert ended.returncode == 0, ended.stderr
    assert {"adapter_model.safetensors", "model.safetensors"} <= set(served.fetched)
    assert "other.safetensors" not in served.fetched
