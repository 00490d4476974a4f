"""The Slurm script starts what Ray and the command line understand; Slurm's own commands are stand-ins here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from ray.scripts.scripts import start
from ray.scripts.symmetric_run import curate_and_validate_ray_start_args, symmetric_run

from subgraft.interfaces.cli import parser

ALLOCATION = {"SLURM_JOB_NODELIST": "node[3-4]", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_PER_TASK": "8"}
COMMAND = ("configs/itdocs.yaml", "preset=gpu", "corpora.laws.limit={train: 10}")


@pytest.fixture
def slurm(tmp_path: Path) -> Path:
    """Stand-ins: scontrol knows two nodes, srun prints what it would start on each, one argument a line."""
    for name, does in (("scontrol", "printf 'node3\\nnode4\\n'"), ("srun", 'printf "%s\\n" "$RAY_AUTH_TOKEN" "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    return tmp_path


def _started(repository: Path, slurm: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    named = {"PATH": f"{slurm}:{os.environ['PATH']}", **ALLOCATION, **environment}
    command = ["bash", str(repository / "slurm" / "run.sbatch"), *COMMAND]
    return subprocess.run(command, env=named, capture_output=True, text=True, timeout=60, check=False)


def test_ray_and_the_command_line_understand_what_is_started(repository: Path, slurm: Path) -> None:
    done = _started(repository, slurm, SUBGRAFT_HOME="/shared/subgraft", SLURM_GPUS_PER_TASK="1")
    assert done.returncode == 0, done.stderr
    token, *started = done.stdout.splitlines()
    assert len(token) == 64
    assert started[:2] == ["ray", "symmetric-run"]
    end = started.index("--")
    whole = symmetric_run.make_context("symmetric-run", started[2:])
    assert (whole.params["address"], whole.params["min_nodes"]) == ("node3:6379", 2)
    node = start.make_context("start", curate_and_validate_ray_start_args(started[2:end]))
    assert (node.params["num_cpus"], node.params["num_gpus"], node.params["include_dashboard"]) == (8, 1, False)
    program, *arguments = started[end + 1 :]
    chosen = parser().parse(arguments)
    assert program == "subgraft"
    assert (str(chosen.config), chosen.overrides) == (COMMAND[0], list(COMMAND[1:]))
    assert chosen.address == "node3:6379", "without it, each run would start a Ray of its own"


def test_every_allocation_has_its_own_token(repository: Path, slurm: Path) -> None:
    tokens = {_started(repository, slurm, SUBGRAFT_HOME="/shared").stdout.splitlines()[0] for _ in range(2)}
    assert len(tokens) == 2


def test_a_store_that_is_not_shared_is_refused(repository: Path, slurm: Path) -> None:
    done = _started(repository, slurm)
    assert done.returncode != 0
    assert "a folder that all nodes share" in done.stderr
