"""subgraft search: hyperparameters of systems, tried out and judged on dev."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.interfaces.cli.output import Commands, console

if TYPE_CHECKING:
    from rich.table import Table

    from subgraft.experiments.search.session import Found
    from subgraft.experiments.search.trial_results import SearchData, TrialResult


def add_to(commands: Commands) -> None:
    one = commands.add_parser("search", help="search for hyperparameters of systems; what was tried is not tried again")
    one.add_argument("config", type=Path, metavar="CONFIG", help="a YAML file with a section `search`")
    one.add_argument("overrides", nargs="*", default=[], metavar="key=value", help="as in search.trials=40")
    one.add_argument("--address", help="of a Ray cluster; default: one on this machine")
    one.set_defaults(command=search)


def search(arguments: argparse.Namespace) -> None:
    """Raises OperationalError where trials failed, once the others are reported."""
    from subgraft.base.errors import OperationalError
    from subgraft.interfaces.cli.experiments import load_experiment

    experiment = load_experiment(arguments.config, arguments.overrides)
    from subgraft.experiments.search.session import (
        sessions,  # after the configuration's mistakes, which need none of it
    )

    searches = sessions(experiment, arguments.config.absolute().parent)
    systems = ""
    failed: list[TrialResult] = []
    for number, session in enumerate(searches, 1):
        if len(searches) > 1:
            console().print(f"system {session.system}, {number} of {len(searches)}")
        found = session.run(console(), arguments.address)
        _tell(found)
        systems += found.systems
        failed += found.failed
    if systems:
        console().print(f"systems:\n{systems}")
    if failed:
        told = f"{len(failed)} trials failed; {failed[0].name}: {failed[0].said}"
        raise OperationalError(told, hint="Run the same command again: it does these again, and no others.")


def _tell(found: Found) -> None:
    """The best trials of a search, and where there is more to see."""
    data = found.page.data({trial.number: trial for trial in found.trials})
    console().print(_best(data))
    console().print(f"\npage         {found.page.path}")
    for command in data.commands:
        console().print(f"{command.purpose.partition(':')[0]:12} {command.line}")
    console().print()


def _best(data: SearchData) -> Table:
    from subgraft.base.terminal import Sheet
    from subgraft.experiments.search.trial_results import best

    shown = Sheet(box=None, pad_edge=False)
    for heading in ("trial", *data.parameters, *data.objectives):
        shown.add_column(heading, justify="right")
    for trial in best(data.trials, data.objectives):
        values = [trial.values.get(name, "–") for name in data.parameters]
        found = [f"{trial.objectives[name]:.2f}" for name in data.objectives]
        shown.add_row(str(trial.number), *map(str, values), *found)
    return shown
