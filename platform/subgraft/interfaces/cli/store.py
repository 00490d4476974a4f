"""subgraft store list | gc: the artifacts of the store, and the removal of unneeded ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.security.terminal_escaping import say
from subgraft.interfaces.api.experiments import load_experiment
from subgraft.interfaces.cli.arguments import Commands, console, whole_number
from subgraft.orchestration.store.home import default_home, describe_empty_store
from subgraft.orchestration.tracking.server import recording_server

if TYPE_CHECKING:
    from subgraft.experiments.inventory import StoredArtifact

HUNDRED_YEARS = 36_500


def add_to(commands: Commands) -> None:
    group = commands.add_parser("store", help="list artifacts, and free space").add_subparsers(required=True)
    listing = group.add_parser("list", help="list artifacts with size, age, and the recent runs that used them")
    listing.set_defaults(command=list_store)

    collect = group.add_parser(
        "gc", help="remove artifacts that no configuration needs; without --apply only list them"
    )
    files = "YAML files, each with its changes key=value, as in `subgraft run`"
    collect.add_argument("--keep", nargs="+", action="extend", required=True, metavar="CONFIG", help=files)
    collect.add_argument(
        "--older-than", type=whole_number(0, HUNDRED_YEARS), metavar="DAYS", help="only artifacts older than this"
    )
    collect.add_argument("--apply", action="store_true", help="remove them")
    collect.set_defaults(command=collect_garbage)


def list_store(arguments: argparse.Namespace) -> None:
    from subgraft.experiments.inventory import artifacts, work_directories

    del arguments
    home = default_home()
    stored, uses = artifacts(home), _uses()
    _show(stored, uses)
    if problem := describe_empty_store(home):
        say(problem)
    unfinished = [directory for directory in work_directories(home) if not directory.finished]
    say(f"{len(stored)} artifacts, {_size(sum(artifact.size for artifact in stored))}, in {home / 'store'}")
    if unfinished:
        size = _size(sum(directory.size for directory in unfinished))
        say(f"{len(unfinished)} steps were started and not finished: {size}")


def collect_garbage(arguments: argparse.Namespace) -> None:
    from subgraft.experiments.garbage_collection import remove, surplus

    home = default_home()
    keep = set[str]().union(*(needed(*each) for each in _configurations(arguments.keep)))
    days = arguments.older_than
    unneeded = surplus(home, keep, datetime.now(UTC) - timedelta(days=days) if days is not None else None)
    if not arguments.apply:
        _show(unneeded.artifacts, {})
    for name in unneeded.claimed:
        say(f"not removed, a process uses it: {name}")
    artifacts, work = f"{len(unneeded.artifacts)} artifacts", f"{len(unneeded.work)} finished work directories"
    texts = f"{len(unneeded.encoded)} encoded text{'s' * (len(unneeded.encoded) > 1)}"
    counts = f"{artifacts}, {work} and {texts}" if unneeded.encoded else f"{artifacts} and {work}"
    if arguments.apply:
        say(f"removed {counts}: {_size(remove(home, unneeded))} are free now")
    else:
        say(f"{counts} would be removed, which frees {_size(unneeded.size)}; --apply removes them")


def _configurations(words: Sequence[str]) -> list[tuple[Path, list[str]]]:
    """Files, each with the changes behind it. Raises UserError for a change before any file."""
    configurations: list[tuple[Path, list[str]]] = []
    for word in words:
        if Path(word).suffix in (".yaml", ".yml"):
            configurations.append((Path(word), []))
        elif configurations and "=" in word:
            configurations[-1][1].append(word)
        else:
            raise UserError(f"'{word}' is not a configuration file", where="--keep", hint="Give YAML files.")
    return configurations


def needed(config: Path, changes: Sequence[str]) -> set[str]:
    """The fingerprints of every step of an experiment, and of the trials of its search."""
    from subgraft.experiments.garbage_collection import needed_by
    from subgraft.experiments.pipeline import Pipeline
    from subgraft.experiments.search.session import last_trial_steps

    experiment, base = load_experiment(config, changes), config.absolute().parent
    return needed_by(Pipeline(experiment, base).report, *last_trial_steps(default_home(), experiment, base))


def _uses() -> Mapping[str, list[str]]:
    """Recent runs by fingerprint; none, and a line on standard error, if they are not available."""
    from subgraft.experiments.inventory import recent_uses

    try:
        with recording_server() as server:
            return recent_uses(server)
    except UserError:  # nothing was recorded here
        return {}
    except OperationalError as error:
        say(f"subgraft: the runs that used them are not known: {error.where}: {error.what}", to=sys.stderr)
        return {}


def _show(stored: Sequence[StoredArtifact], uses: Mapping[str, list[str]]) -> None:
    from subgraft.base.terminal import Table
    from subgraft.orchestration.tracking.payloads import SHORT_LENGTH

    table = Table(box=None, pad_edge=False)
    for heading in ("stage", "name", "artifact", "size", "age", "used by"):
        table.add_column(heading, justify="right" if heading in ("size", "age") else "left", overflow="fold")
    now = datetime.now(UTC)
    for artifact in stored:
        short, age = artifact.fingerprint[:SHORT_LENGTH], _age(now - artifact.finished)
        runs = list(dict.fromkeys(uses.get(short, ())))
        used_by = runs[0] + (f" and {len(runs) - 1} more" if len(runs) > 1 else "") if runs else ""
        table.add_row(artifact.stage, artifact.name, short, _size(artifact.size), age, used_by)
    if stored:
        console().print(table)


def _size(count: float) -> str:
    """Bytes as people read them, in powers of 1000."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def _age(since: timedelta) -> str:
    """Days, and hours or minutes below a day."""
    if since.days > 0:
        return f"{since.days} d"
    hours = since.seconds // 3600
    return f"{hours} h" if hours else f"{max(0, since.seconds // 60)} min"
