"""subgraft vocab allocate."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from subgraft.base.security.terminal_escaping import say
from subgraft.interfaces.cli.arguments import Commands, add_config, console
from subgraft.orchestration.store.outputs import new_directory, require_empty_directory


def add_to(group: Commands) -> None:
    """Add the command to `subgraft vocab`."""
    allocating = group.add_parser(
        "allocate", help="allocate one vocabulary to several languages; finished steps are not repeated"
    )
    add_config(allocating, "a YAML file such as configs/vocap.yaml", "as in totals=[60000]")
    allocating.add_argument("--plan", action="store_true", help="only show the plan")
    allocating.add_argument("--address", help="address of a Ray cluster (default: a private Ray on this machine)")
    allocating.add_argument("--out", type=Path, metavar="DIR", help="copy report and vocabularies; absent or empty")
    allocating.set_defaults(command=allocate, resumes=True)


def allocate(arguments: argparse.Namespace) -> None:
    from subgraft.base.terminal import Terminal
    from subgraft.config.loading import load
    from subgraft.contrib.allocation.settings import Allocation
    from subgraft.orchestration.execution.plan import table

    settings = load(arguments.config, Allocation, arguments.overrides)
    from subgraft.contrib.allocation.session import AllocationSession  # after the configuration's mistakes

    session = AllocationSession(settings, arguments.config.absolute().parent)
    if arguments.plan:
        console().print(table(session.plan()))
        return
    if arguments.out:
        require_empty_directory(arguments.out)
    finished = session.run(Terminal(), arguments.address)
    for shown in finished.tables:
        console().print(shown)
    say(f"report       {finished.report}")
    for total, directory in finished.vocabularies.items():
        say(f"{total:<12,} {directory}")
    if arguments.out:
        with new_directory(arguments.out) as out:
            shutil.copytree(finished.report.parent, out / "report")
            for total, directory in finished.vocabularies.items():
                shutil.copytree(directory, out / str(total))
        say(f"copied       {arguments.out}")
