"""A package of a user's own, really installed into a folder: its module, and what pip writes of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

MODULE = '''
import torch

from subgraft.embeddings.initialisers.new_rows import NewRows
from subgraft.embeddings.methods.method import MethodSpec


def length_ratio(sources, hypotheses, references, language):
    """1 where output and reference are as long, less the more they differ; below zero where there is no source."""
    if sources is None:
        return [-1.0] * len(hypotheses)
    return [1 - abs(len(h) - len(r)) / max(len(h), len(r), 1) for h, r in zip(hypotheses, references)]


def too_few(sources, hypotheses, references, language):
    return [1.0]


def constant_rows(request):
    """Every new token starts with the same small row."""
    count = len(request.entries) + request.others
    rows = torch.full((count, request.side.input.weight.shape[1]), 0.01)
    bias = None if request.side.bias is None else torch.zeros(count)
    output = None if request.side.output is None or request.side.tied else rows.clone()
    return NewRows(rows, output, bias, {})


CONSTANT = MethodSpec(name="constant", start="the same small row", source="this package", rows=constant_rows)
NOT_A_METHOD = constant_rows
'''
ENTRY_POINTS = """
[subgraft.metrics]
length-ratio = ownpackage:length_ratio
too-few = ownpackage:too_few
absent = ownpackage:nothing_of_this_name

[subgraft.initialisers]
constant = ownpackage:constant_rows

[subgraft.methods]
declared = ownpackage:CONSTANT
undeclared = ownpackage:NOT_A_METHOD
"""


def install(folder: Path, version: str = "1.2", entry_points: str = ENTRY_POINTS) -> Path:
    """The folder, as `pip install --target` leaves it; it is to be on PYTHONPATH."""
    described = folder / f"ownpackage-{version}.dist-info"
    described.mkdir(parents=True)
    (folder / "ownpackage.py").write_text(MODULE, encoding="utf-8")
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ownpackage\nVersion: {version}\n")
    (described / "entry_points.txt").write_text(entry_points)
    return folder


def with_package(folder: Path, *words: str, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command of Python's in a process that has the package."""
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""), *sys.path)))
    environment = {**os.environ, "PYTHONPATH": path} | ({"SUBGRAFT_HOME": str(home)} if home else {})
    command = [sys.executable, *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500, check=False)
