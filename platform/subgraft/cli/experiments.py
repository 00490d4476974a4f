"""subgraft run, plan, compare, report and tracking: whole experiments."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.cli.output import Commands, console, new_directory

if TYPE_CHECKING:
    from subgraft.config import Experiment
    from subgraft.experiment.session import Session


def add_to(commands: Commands) -> None:
    for name, command, what in (
        ("run", run, "run an experiment; what is done already is not done again"),
        ("plan", plan, "show what a run would do, and why"),
    ):
        one = commands.add_parser(name, help=what)
        one.add_argument("config", type=Path)
        one.add_argument("overrides", nargs="*", metavar="key=value", help="as in finetune.epochs=5")
        one.set_defaults(command=command)
        if name == "run":
            one.add_argument("--plan", action="store_true", help="show the plan only")
            one.add_argument("--address", help="of a Ray cluster; default: one on this machine")

    compare = commands.add_parser("compare", help="a table over runs")
    compare.add_argument("runs", nargs="+", metavar="RUN", help="an experiment's name, or a run's name or id")
    compare.set_defaults(command=compare_runs)

    report = commands.add_parser("report", help="copy the report of an experiment")
    report.add_argument("config", type=Path)
    report.add_argument("overrides", nargs="*", metavar="key=value")
    report.add_argument("--out", type=Path, required=True)
    report.set_defaults(command=copy_report)

    tracking = commands.add_parser("tracking", help="the MLflow page of this store, on this machine only")
    tracking.add_argument("--port", type=int, default=5000)
    tracking.set_defaults(command=serve_tracking)


def load_experiment(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """A configuration file with its overrides. Raises UserError with everything that is wrong."""
    from subgraft.config import Experiment
    from subgraft.configfile import load

    return load(path, Experiment, overrides)


def _session(arguments: argparse.Namespace) -> Session:
    from subgraft.experiment.session import Session

    experiment = load_experiment(arguments.config, arguments.overrides)
    return Session(experiment, arguments.config.absolute().parent)


def run(arguments: argparse.Namespace) -> None:
    if arguments.plan:
        plan(arguments)
        return
    session = _session(arguments)
    finished = session.run(console(), arguments.address)
    console().print(finished.table)
    console().print(f"\nreport       {finished.report}", highlight=False)
    for purpose, command in finished.commands:
        console().print(f"{purpose:12} {command}", highlight=False, markup=False)


def plan(arguments: argparse.Namespace) -> None:
    from subgraft.experiment.plan import table

    console().print(table(_session(arguments).plan()))


def compare_runs(arguments: argparse.Namespace) -> None:
    from subgraft.experiment.compare import compare, table
    from subgraft.experiment.store import default_home
    from subgraft.experiment.tracking import Server

    console().print(table(compare(Server(default_home()), arguments.runs)))


def copy_report(arguments: argparse.Namespace) -> None:
    import shutil

    source = _session(arguments).report_directory()
    with new_directory(arguments.out) as out:
        shutil.copytree(source, out, dirs_exist_ok=True)
    print(f"{arguments.out / 'report.html'}")


def serve_tracking(arguments: argparse.Namespace) -> None:
    from subgraft.experiment.store import default_home
    from subgraft.experiment.tracking import serve

    serve(default_home(), arguments.port)
