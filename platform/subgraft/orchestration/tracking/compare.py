"""Compare runs: the figures of one kind of stage by system, seed and run, and a table of the means, best first."""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, TextIO, TypeAlias

from rich.cells import cell_len

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.labelled import LABEL_METRICS
from subgraft.evaluation.metrics.scores import FURTHER_METRICS, LOWER_IS_BETTER, METRICS
from subgraft.evaluation.metrics.significance import LEVEL
from subgraft.evaluation.reporting.numbers import MISSING, fixed
from subgraft.evaluation.reporting.table import FILE, MainTable
from subgraft.orchestration.tracking.payloads import FINGERPRINT, SYSTEM, TEST, TRAINED, to_metric_name
from subgraft.orchestration.tracking.server import Server, TrackedRun
from subgraft.pipeline.measurements.registry import COMPARED
from subgraft.pipeline.stages.evaluation import TEST_SET

if TYPE_CHECKING:
    from rich.console import Group

# By stage, the parts of a system's run that it makes; each with its test set if that is not the task's own.
PARTS: Mapping[str, Mapping[str, str | None]] = {
    "evaluate": {TEST: None, **COMPARED},
    "finetune": {TRAINED: None},
}
SIGNATURES = "signatures"  # of an evaluation's scores, by name
BITS = "bits_per_character"
# The order of scores in tables; others follow by name, and a language model's bits per character last.
_ORDER = tuple(map(to_metric_name, (*METRICS, *FURTHER_METRICS, *LABEL_METRICS)))
_LOWER_IS_BETTER = {
    *(LOWER_IS_BETTER | {name for name, metric in LABEL_METRICS.items() if metric.lower_is_better}),
    *("train_loss", "seconds", BITS, f"dev_{BITS}"),
}
# Figures of a table in addition to scores, with their headings.
_FURTHER = {"characters_per_token": "chars/\ntoken", "sentences_per_second": "sent./\ns"}
_GAP = 2  # between columns
_LEAST_NAME = 20  # characters of a line of a system's name
SINGLE = "No report of these runs is in this store: a difference may be due to chance, by seeds or test sentences."


@dataclass(frozen=True, slots=True)
class ComparedSystem:
    """One stage of one run: its system (or name) and seed, and its figures."""

    run: str
    system: str
    seed: str
    cached: bool
    figures: dict[str, float]
    scores: tuple[str, ...] = ()
    test_set: str = ""


def is_lower_better(name: str) -> bool:
    """Whether less of a figure is better; a part before a slash is not looked at."""
    return name.rpartition("/")[2] in _LOWER_IS_BETTER


def score_names(runs: Iterable[TrackedRun], part: str = "") -> tuple[str, ...]:
    """The scores among the figures of runs, or of one part of them, the main one first: figures with a signature."""
    prefix, signed = (f"{part}/", f"{part}.{SIGNATURES}.") if part else ("", f"{SIGNATURES}.")
    names = {
        name.removeprefix(prefix)
        for run in runs
        for name in run.metrics
        if name.startswith(prefix)
        and (signed + name.removeprefix(prefix) in run.tags or name.removeprefix(prefix) == BITS)
    }
    return tuple(_in_order(names))


def _in_order(names: Iterable[str]) -> list[str]:
    """Scores, the main one first."""
    rank = {name: position for position, name in enumerate(_ORDER)}
    return sorted(names, key=lambda name: (name == BITS, rank.get(name, len(rank)), name))


def compare(server: Server, runs: Sequence[str], stage: str = "evaluate") -> list[ComparedSystem]:
    """The finished stages of one kind in `runs`, names or ids, in their order.

    A system's evaluation on the upstream test set has the name `patt (upstream)`. Raises UserError if a run does not
    exist, or none has such a stage.
    """
    systems = []
    for run in map(server.find, runs):
        for child in server.children(run):
            seed, cached = child.tags.get("seed", ""), child.tags.get("cached") == "true"
            rows = _system_rows(child, stage) if child.tags.get("kind") == SYSTEM else _step_rows(child, stage)
            systems += [
                ComparedSystem(run.name, name, seed, cached, figures, score_names([child], part), test_set or "")
                for name, test_set, part, figures in rows
            ]
    if not systems:
        raise UserError(f"none of these runs has a finished stage '{stage}'", where=", ".join(runs))
    return systems


# Of an evaluation or training: its system's name, its test set, its part in the run, and its figures.
_Row: TypeAlias = tuple[str, str | None, str, dict[str, float]]


def _system_rows(run: TrackedRun, stage: str) -> Iterator[_Row]:
    """The evaluations or trainings by a stage in a system's run."""
    for part, test_set in PARTS.get(stage, {}).items():
        prefix = f"{part}/"
        figures = {name.removeprefix(prefix): value for name, value in run.metrics.items() if name.startswith(prefix)}
        if figures:
            yield _name(run.tags.get("system", run.name), test_set), test_set, part, figures


def _step_rows(run: TrackedRun, stage: str) -> Iterator[_Row]:
    """A stage that has its own run."""
    if run.tags.get("stage") == stage and run.metrics:
        system, test_set = run.tags.get("system"), run.tags.get(TEST_SET)
        yield run.name if system is None else _name(system, test_set), test_set, "", dict(run.metrics)


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


def table(systems: Sequence[ComparedSystem], width: int, notes: Sequence[str] = ()) -> Group:
    """One table of means over seeds that fits a width: best first, the task's own test set before others.

    Figures that do not fit are left out, the last first; lines below name them, and have the notes.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table

    groups: dict[tuple[str, str, str], list[ComparedSystem]] = defaultdict(list)
    for each in systems:
        groups[each.test_set, each.system, each.run].append(each)
    names = [*_in_order({name for each in systems for name in each.scores}), *_FURTHER]
    names = [name for name in names if any(name in each.figures for each in systems)] or figure_names(systems)
    rows = list[tuple[tuple[str, str, str], list[ComparedSystem], dict[str, float]]]()
    for key, group in groups.items():
        in_all = [name for name in names if all(name in each.figures for each in group)]
        rows.append((key, group, {name: fmean(each.figures[name] for each in group) for name in in_all}))
    rows.sort(key=lambda row: (row[0][0], _badness(row[2], names[0])))
    runs = list(dict.fromkeys(each.run for each in systems))
    columns = [("system", [system for (_, system, _), *_ in rows])]
    if len(runs) > 1:
        columns.append(("run", [str(runs.index(run) + 1) for (*_, run), *_ in rows]))
    columns.append(("seeds", [", ".join(sorted(each.seed for each in group)) for _, group, _ in rows]))
    named = len(columns)
    columns += [
        (_heading(name), [fixed(means.get(name), 3 if name == BITS else 2) for *_, means in rows]) for name in names
    ]
    shown = max(
        (end for end in range(named + 1, len(columns) + 1) if _width(columns[:end]) <= width), default=named + 1
    )
    lines = [f"run {number}: {run}" for number, run in enumerate(runs, 1)] if len(runs) > 1 else []
    if omitted := names[shown - named :]:
        lines.append(f"Too wide to show, but in --csv -: {', '.join(name.replace('_', ' ') for name in omitted)}.")
    sheet = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for index, (heading, _) in enumerate(columns[:shown]):
        sheet.add_column(heading, justify="left" if index < named else "right", overflow="fold", no_wrap=index > 0)
    for cells in zip(*(cells for _, cells in columns[:shown]), strict=True):
        sheet.add_row(*cells)
    return Group(sheet, "", *lines, *notes)


def _badness(means: Mapping[str, float], name: str) -> float:
    """The less of it, the better; a system without the figure is last."""
    return (means[name] if is_lower_better(name) else -means[name]) if name in means else math.inf


def _heading(name: str) -> str:
    if name in _FURTHER:
        return _FURTHER[name]
    words = "bits/\nchar" if name == BITS else name.replace("_", " ").replace(" ", "\n")
    return f"{words} {'↓' if is_lower_better(name) else '↑'}"


def _width(columns: Sequence[tuple[str, Sequence[str]]]) -> int:
    """The width of a table if the first column is folded to its least."""
    widths = [
        max(cell_len(line) for cell in (heading, *cells) for line in cell.split("\n")) for heading, cells in columns
    ]
    return min(widths[0], _LEAST_NAME) + sum(widths[1:]) + _GAP * (len(widths) - 1)


def significance(home: Path, run: TrackedRun) -> list[str]:
    """The tests of the run's report in sentences; empty if the report is not in this store, or has no baseline."""
    fingerprint = run.tags.get(f"{FINGERPRINT}.report", "")
    report = home / "store" / "report" / fingerprint
    if not fingerprint or not (report / FILE).is_file():
        return []
    main = MainTable.read(report)
    if "Δ" not in main.headings:
        return []
    column = main.headings.index("Δ")
    metric = main.headings[column - 1].replace("\n", "")
    baseline = next((row[0] for row in main.rows if row[column] == MISSING), "the baseline")
    return [
        *(
            f"{row[0]} against {baseline}: {row[column]} {metric}, p {row[column + 1]}, "
            + ("more than chance." if float(row[column + 1].removeprefix("< ")) < LEVEL else "which may be chance.")
            for row in main.rows
            if row[column] != MISSING
        ),
        *main.caption.split("\n")[1:],
    ]
