"""Compare runs: the figures of one kind of stage, a line for each system, seed and run."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from subgraft.base.errors import UserError
from subgraft.orchestration.tracking.payloads import SYSTEM, TEST, TRAINED
from subgraft.orchestration.tracking.server import Server, TrackedRun
from subgraft.pipeline.measurements.registry import COMPARED
from subgraft.pipeline.stages.evaluation import TEST_SET

if TYPE_CHECKING:
    from rich.table import Table

# By stage, the parts of a system's run that it makes; each with its test set if that is not the task's own.
PARTS: Mapping[str, Mapping[str, str | None]] = {
    "evaluate": {TEST: None, **COMPARED},
    "finetune": {TRAINED: None},
}
SINGLE = (
    "Every line is one training: a higher figure may be due to chance, by its seed or the test sentences. "
    "Reports test significance."
)


@dataclass(frozen=True, slots=True)
class ComparedSystem:
    """One stage of one run: its system (or name) and seed, and its figures."""

    run: str
    system: str
    seed: str
    cached: bool
    figures: dict[str, float]


def compare(server: Server, runs: Sequence[str], stage: str = "evaluate") -> list[ComparedSystem]:
    """The finished stages of one kind in runs, in the order of `runs`.

    A system's evaluation on the upstream test set has the name `patt (upstream)`.

    Args:
        server: The tracking server.
        runs: Names or ids of runs.
        stage: The name of the stage.

    Raises:
        UserError: A run does not exist, or none of the runs has such a stage.
    """
    systems = []
    for run in map(server.find, runs):
        for child in server.children(run):
            seed, cached = child.tags.get("seed", ""), child.tags.get("cached") == "true"
            rows = _system_rows(child, stage) if child.tags.get("kind") == SYSTEM else _step_rows(child, stage)
            systems += [ComparedSystem(run.name, name, seed, cached, figures) for name, figures in rows]
    if not systems:
        raise UserError(f"none of these runs has a finished stage '{stage}'", where=", ".join(runs))
    return systems


def _system_rows(run: TrackedRun, stage: str) -> Iterator[tuple[str, dict[str, float]]]:
    """The name and figures of each evaluation or training by a stage in a system's run."""
    for part, test_set in PARTS.get(stage, {}).items():
        prefix = f"{part}/"
        figures = {name.removeprefix(prefix): value for name, value in run.metrics.items() if name.startswith(prefix)}
        if figures:
            yield _name(run.tags.get("system", run.name), test_set), figures


def _step_rows(run: TrackedRun, stage: str) -> Iterator[tuple[str, dict[str, float]]]:
    """The name and figures of a stage that has its own run."""
    if run.tags.get("stage") == stage and run.metrics:
        system = run.tags.get("system")
        yield run.name if system is None else _name(system, run.tags.get(TEST_SET)), dict(run.metrics)


def _name(system: str, test_set: str | None) -> str:
    return f"{system} ({test_set})" if test_set else system


def figure_names(systems: Sequence[ComparedSystem]) -> list[str]:
    """Every figure that any of the systems has, in the order of their first appearance."""
    return list(dict.fromkeys(name for system in systems for name in system.figures))


def write_csv(systems: Sequence[ComparedSystem], file: TextIO) -> None:
    """The systems as comma-separated values (RFC 4180), with full precision; missing figures are empty."""
    names = figure_names(systems)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("run", "system", "seed", "cached", *names))
    for system in systems:
        figures = (repr(system.figures[name]) if name in system.figures else "" for name in names)
        writer.writerow((system.run, system.system, system.seed, str(system.cached).lower(), *figures))


def table(systems: Sequence[ComparedSystem]) -> Table:
    """The systems as a table for the terminal, with a caption on what it does not show; missing figures are blank."""
    from subgraft.base.terminal import Sheet

    figures = figure_names(systems)
    sheet = Sheet(box=None, pad_edge=False, caption=SINGLE, caption_justify="left")
    for heading in ("run", "system", "seed"):
        sheet.add_column(heading)
    for heading in figures:
        sheet.add_column(heading, justify="right")
    for system in systems:
        values = [f"{system.figures[name]:.4g}" if name in system.figures else "" for name in figures]
        sheet.add_row(system.run, system.system, system.seed, *values)
    return sheet
