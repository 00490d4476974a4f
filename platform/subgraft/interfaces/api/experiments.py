"""Whole experiments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import ArgumentError

if TYPE_CHECKING:
    from subgraft.experiments.session import Finished, Session


def run(
    config: Path | str, overrides: Mapping[str, object] | Sequence[str] = (), *, address: str | None = None
) -> Finished:
    """Run an experiment, as `subgraft run` does: what is done already is not done again, and all of it is recorded.

    config: a YAML file, as in configs/.  overrides: of its settings, {"finetune.epochs": 5} or ["finetune.epochs=5"].
    address: of a Ray cluster; by default one on this machine.

    Raises UserError with all mistakes of the configuration, OperationalError where the disk, the network or a process
    fails: called again, it carries on.
    """
    from subgraft.base.terminal import Terminal
    from subgraft.interfaces.api.arguments import path_of

    return session_of(path_of("config", config), overrides).run(Terminal(), address)


def session_of(config: Path, overrides: Mapping[str, object] | Sequence[str] = ()) -> Session:
    """An experiment in the store of this place. Raises UserError with everything that is wrong."""
    from subgraft.config.experiment import Experiment
    from subgraft.config.loading import load

    if isinstance(overrides, str) or not isinstance(overrides, Mapping | Sequence):
        from subgraft.interfaces.api.arguments import shown

        hint = 'Give {"finetune.epochs": 5} or ["finetune.epochs=5"].'
        raise ArgumentError(f"expected a mapping or a list, found {shown(overrides)}", where="overrides", hint=hint)
    if isinstance(overrides, Mapping):
        overrides = [f"{name}={json.dumps(value)}" for name, value in overrides.items()]  # JSON is YAML
    experiment = load(config, Experiment, overrides)
    from subgraft.experiments.session import Session  # after the configuration's mistakes, which need none of it

    return Session(experiment, config.absolute().parent)


def report_of(run: str, overrides: Sequence[str] = ()) -> Path:
    """The directory of a finished report. run: a recorded run's name or id, or an experiment's YAML file.

    Raises UserError where there is none.
    """
    if overrides or Path(run).suffix in (".yaml", ".yml"):
        return session_of(Path(run), overrides).report_directory()
    from subgraft.base.errors import UserError
    from subgraft.orchestration.store.home import default_home, require_format
    from subgraft.orchestration.tracking.server import recording_server

    require_format(default_home())
    with recording_server() as server:
        fingerprint = server.find(run).tags.get("fingerprint.report", "")
    directory = default_home() / "store" / "report" / fingerprint
    if (directory / "report.html").is_file():
        return directory
    raise UserError(
        "this run has no finished report", where=run, hint="Give the experiment's YAML file, or run it again."
    )


def stopped_after(config: Path, overrides: Sequence[str], asked: str) -> list[str]:
    """The overrides with one more, SECTION.stop_after=UPDATES, by what `--stop-after` says.

    asked: SECTION, a group of settings of a training, which then ends where it has come to by its last checkpoint; or
    SECTION=UPDATES. Raises UserError for another section, and for one of whose trainings nothing has come to anything.
    """
    from subgraft.base.errors import UserError
    from subgraft.orchestration.execution.early_stopping import reached
    from subgraft.orchestration.store.step import in_order

    section, _, updates = asked.partition("=")
    session = session_of(config, [*overrides, f"{section}.stop_after={updates or 1}"])
    if not updates:
        found = reached(session.store, in_order([session.pipeline.report]))
        if found is None:
            hint = f"Give a number of updates, as in --stop-after {section}=1000."
            raise UserError("no training of it has been begun and left unfinished", where=section, hint=hint)
        updates = str(found)
    return [*overrides, f"{section}.stop_after={updates}"]
