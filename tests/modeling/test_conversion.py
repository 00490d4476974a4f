"""Models as they were published before safetensors: converted, or refused before anything is made of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from torch_form import compressed, nested_tuples, published
from toys import marian, mbart


@pytest.mark.parametrize(("family", "shards"), [("marian", 1), ("marian", 3), ("mbart", 1)])
def test_what_is_converted_is_the_same_model(
    family: str, shards: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, out = published(tmp_path / "published", shards=shards, family=family), tmp_path / "out"
    assert main(["convert", str(directory), "--out", str(out)]) == 0
    assert "parameters written" in capsys.readouterr().out
    result, expected = Bundle.load(out), marian() if family == "marian" else mbart()
    state = result.model.state_dict()
    assert expected.state_dict().keys() == state.keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in expected.state_dict().items())
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    before = {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}
    assert names == {name for name in before if "pytorch_model" not in name} | {"model.safetensors"}
    assert (out / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_tensors_that_share_memory_and_tensors_without_a_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = published(tmp_path / "published")
    weights = torch.load(directory / "pytorch_model.bin", weights_only=True)
    tied = "lm_head.weight" if "lm_head.weight" in weights else "model.decoder.embed_tokens.weight"
    weights["model.shared.copy"] = weights[tied]
    torch.save(weights, directory / "pytorch_model.bin")
    assert main(["convert", str(directory), "--out", str(tmp_path / "out")]) == 0
    assert "1 tensors (model.shared.copy)" in capsys.readouterr().out
    assert Bundle.load(tmp_path / "out").model.num_parameters() == marian().num_parameters()


class Commands:
    """What a pickle does that is not a file of weights."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def _not_weights(directory: Path, marker: Path) -> None:
    torch.save({"lm_head.weight": Commands(marker)}, directory / "pytorch_model.bin")


def _training_state(directory: Path, marker: Path) -> None:
    torch.save({"step": 3, "model": {}}, directory / "pytorch_model.bin")


def _a_list(directory: Path, marker: Path) -> None:
    torch.save([torch.ones(2)], directory / "pytorch_model.bin")


def _damaged(directory: Path, marker: Path) -> None:
    path = directory / "pytorch_model.bin"
    path.write_bytes(path.read_bytes()[:2000])


def _missing(directory: Path, marker: Path) -> None:
    weights = torch.load(directory / "pytorch_model.bin", weights_only=True)
    del weights["model.encoder.layers.0.fc1.weight"]
    torch.save(weights, directory / "pytorch_model.bin")


def _leads_elsewhere(directory: Path, marker: Path) -> None:
    shutil.move(directory / "pytorch_model.bin", directory.parent / "outside.bin")
    index = {"weight_map": {"lm_head.weight": "../outside.bin"}}
    (directory / "pytorch_model.bin.index.json").write_text(json.dumps(index))


def _nothing(directory: Path, marker: Path) -> None:
    (directory / "pytorch_model.bin").unlink()


def _unknown_family(directory: Path, marker: Path) -> None:
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps({**config, "model_type": "mamba"}))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_not_weights, "cannot be read as tensors alone"),
        (_training_state, "'step' is not a tensor"),
        (_a_list, "does not contain tensors by name"),
        (_damaged, "cannot be read as tensors alone"),
        (_missing, "1 weights are missing, among them model.encoder.layers.0.fc1.weight"),
        (_leads_elsewhere, "which is not a .bin file next to it"),
        (_nothing, "neither pytorch_model.bin nor"),
        (_unknown_family, "'mamba' are not supported"),
    ],
)
def test_what_is_not_a_model_is_refused_and_leaves_nothing(
    spoil: Callable[[Path, Path], None], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, marker = published(tmp_path / "published"), tmp_path / "obeyed"
    spoil(directory, marker)
    before = sorted(tmp_path.iterdir())
    assert main(["convert", str(directory), "--out", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
    assert not marker.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "most", "content", "message"),
    [
        ("SUBGRAFT_CONVERT_MAX_SECONDS", 1, lambda: nested_tuples(as_name=True), "take too long to read"),
        ("SUBGRAFT_CONVERT_MAX_MEMORY", 64 << 20, lambda: compressed({"a": torch.zeros(10**8)}), "needs more memory"),
    ],
)
def test_a_small_file_takes_neither_all_time_nor_all_memory(
    variable: str,
    most: int,
    content: Callable[[], bytes],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = published(tmp_path / "published")
    (directory / "pytorch_model.bin").write_bytes(content())
    monkeypatch.setenv(variable, str(most))
    assert main(["convert", str(directory), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert message in said and variable in said
    assert list(tmp_path.iterdir()) == [directory]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a process of its parent's death")
def test_the_reader_ends_with_a_command_that_is_killed(tmp_path: Path) -> None:
    directory = published(tmp_path / "published")
    (directory / "pytorch_model.bin").write_bytes(nested_tuples(as_name=True))
    command = [sys.executable, "-m", "subgraft", "convert", str(directory), "--out", str(tmp_path / "out")]
    converting = subprocess.Popen(command)
    try:
        reader = _child_that_works(psutil.Process(converting.pid))
        converting.kill()
        converting.wait()
        psutil.wait_procs([reader], timeout=60)
        assert not reader.is_running()
    finally:
        converting.kill()
        converting.wait()


def _child_that_works(process: psutil.Process) -> psutil.Process:
    """The process that reads the weights, once it has begun to: torch alone takes some of its time."""
    deadline = time.monotonic() + 120
    while not (children := process.children()) or children[0].cpu_times().user < 0.2:
        assert time.monotonic() < deadline and process.is_running()
        time.sleep(0.05)
    return children[0]


def test_a_model_without_safetensors_is_refused_with_how_to_get_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = published(tmp_path / "published")
    assert main(["generate", "--model", str(directory), "--languages", "en-de", "--input", os.devnull]) == 2
    assert f"subgraft convert {directory} --out DIR" in capsys.readouterr().err
