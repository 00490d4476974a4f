"""The benchmarks of a GPU in tiny form on the CPU: all their lines run, without packages that such a machine lacks."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import gpu
import gpu_language_model
from gpu_language_model import ACTS, CELLS, DOCUMENTATION, Cell, Place, affordable

ABSENT = (
    "ray mlflow deepspeed optuna fastapi uvicorn starlette pyarrow pandas gensim nltk rouge_score ctranslate2 peft "
    "shtab matplotlib boto3 aiohttp requests seqeval mtdata"
)


def _run(repository: Path, script: str, *options: str) -> None:
    """A benchmark, where packages that training does not need cannot be imported."""
    blocked = f"import sys; sys.modules.update(dict.fromkeys({ABSENT.split()!r})); sys.path[:0] = {sys.path!r}; "
    run = f"import {script}; {script}.main(sys.argv[1:])"
    command = [sys.executable, "-c", blocked + run, "--tiny", "--device", "cpu", *options]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_all_parts_run_where_only_training_can_be_imported(repository: Path, tmp_path: Path) -> None:
    _run(repository, "gpu", "--json", str(tmp_path / "tiny.json"))
    result = json.loads((tmp_path / "tiny.json").read_text())
    assert list(result["parts"]) == list(gpu.PARTS)
    for name, part in result["parts"].items():
        assert part["state"] == "done" and part["rows"], (name, part)
        assert not [row for row in part["rows"] if row.get("right") is False or "error" in row], name
    losses = {row["loss"] for row in result["parts"]["trainings"]["rows"]}
    assert losses >= {"Seq2SeqLoss", "GeneratorLoss", "CausalLoss"}
    assert result["parts"]["zero"]["rows"] == [{"left_out": "deepspeed is not installed"}]
    assert all(row["same_bytes"] for row in result["parts"]["resuming"]["rows"])
    assert result["machine"]["versions"]["torch"] == torch.__version__


@pytest.mark.slow
def test_a_language_model_is_compared_by_several_processes_and_a_rerun_goes_on(
    repository: Path, tmp_path: Path
) -> None:
    out, options = tmp_path / "tiny.jsonl", ("--processes", "2", "--minutes", "60")
    _run(repository, "gpu_language_model", "--out", str(out), *options)
    rows = gpu.read_rows(out)
    assert not [row for row in rows if "error" in row]
    complete = {cell_of(row): row for row in rows if row.get("complete")}
    assert set(complete) == set(gpu_language_model.TINY)
    assert len({row["characters"] for row in complete.values()}) == 1
    tokens = {(cell.vocabulary, cell.start): row["tokens_a_character"] for cell, row in complete.items()}
    assert tokens["extended", "fitted"] == tokens["extended", "patt"] < tokens["old", "own"]
    assert {row["decoding"] for row in rows if "decoding" in row} == {"old", "extended", "replaced"}
    lost = gpu_language_model.TINY[1]
    remaining = [row for row in rows if not (row.get("complete") and cell_of(row) == lost)]
    out.write_text("".join(json.dumps(row) + "\n" for row in remaining))
    _run(repository, "gpu_language_model", "--out", str(out), *options)
    again = gpu.read_rows(out)[len(remaining) :]
    assert {cell_of(row) for row in again if "seed" in row} == {lost}
    (last,) = (row for row in again if row.get("complete"))
    assert last["dev"] == complete[lost]["dev"]


def cell_of(row: dict[str, Any]) -> Cell:
    return Cell(**{field.name: row[field.name] for field in fields(Cell)})


@dataclass(frozen=True)
class _Numbers:
    inputs: Tensor
    again: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {"loss": len(self.inputs)}

    def to(self, device: torch.device | str) -> _Numbers:
        return _Numbers(self.inputs.to(device), self.again.to(device))


class _Square(nn.Module):
    """A loss that is wrong by `error` in fp32 alone."""

    def __init__(self, error: float) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.line, self.error = nn.Linear(8, 8), error

    def forward(self, batch: _Numbers) -> dict[str, Tensor]:
        loss = self.line(batch.inputs).square().sum()
        is_on_device = loss.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
        return {"loss": loss * (1.0 + self.error * (is_on_device and self.training_on_device()))}

    calls = 0

    def training_on_device(self) -> bool:
        """The second pass in fp32 is the device's; the first is the CPU's."""
        self.calls += 1
        return self.calls == 2


@pytest.mark.parametrize(("error", "right"), [(0.0, True), (1e-3, False)])
def test_a_wrong_gradient_is_noticed(error: float, right: bool) -> None:
    module, inputs = _Square(error), torch.randn(5, 8)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    row = gpu.comparison(module, _Numbers(inputs, inputs), {"loss": 1.0}, torch.device("cpu"))
    assert row["right"] is right
    assert all(map(torch.equal, before, module.parameters()))


def test_a_batch_in_another_precision_has_the_same_objects_where_it_had_them() -> None:
    inputs = torch.randn(2, 8)
    batch = gpu.with_floats(_Numbers(inputs, inputs), torch.float64)
    assert batch.inputs is batch.again and batch.inputs.dtype == torch.float64


def test_a_part_that_fails_or_takes_too_long_is_recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = gpu.machine_of("cpu", tiny=True)

    def breaks(machine: gpu.Machine) -> gpu.Rows:
        yield {"before": 1}
        raise RuntimeError("out of memory")

    monkeypatch.setitem(gpu.PARTS, "zero", gpu.Part(breaks, 1))
    monkeypatch.setitem(gpu.PARTS, "copies", gpu.Part(lambda machine: iter([{"after": 1}]), 1))
    gpu.main(["--tiny", "--device", "cpu", "--json", str(tmp_path / "x.json"), "--only", "zero", "copies"])
    parts = json.loads((tmp_path / "x.json").read_text())["parts"]
    assert parts["zero"]["state"] == "failed" and parts["zero"]["rows"] == [{"before": 1}]
    assert "out of memory" in parts["zero"]["error"] and parts["copies"]["rows"] == [{"after": 1}]
    assert gpu.in_own_process("ceilings", machine, limit=0.0)["state"] == "took too long"
    alone = gpu.in_own_process("ceilings", machine, limit=300)
    assert alone["state"] == "done" and len(alone["rows"]) == 4


def test_a_line_that_a_kill_has_cut_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "rows").write_text('{"a": 1}\n{"b"')
    assert gpu.read_rows(tmp_path / "rows") == [{"a": 1}]


def test_cells_are_chosen_by_worth_and_those_that_are_left_out_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Place, "lines", lambda place, text, split: ["x" * {DOCUMENTATION: 1000, ACTS: 50_000}[text]])
    place, cells = Place(Path(), Path(), "cpu", False), CELLS
    chosen, left_out = affordable(cells, place, rate=1000.0, seconds=10.0)
    assert chosen[:3] == [Cell(DOCUMENTATION, "old", 0, "own", seed, untied=True) for seed in (1, 2, 3)]
    assert sorted(map(cells.index, chosen)) == list(map(cells.index, chosen))
    assert {*chosen, *left_out} == {*cells} and not {*chosen} & {*left_out}
    assert affordable(cells, place, rate=1e9, seconds=10.0) == (list(cells), [])
