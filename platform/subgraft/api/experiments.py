"""Whole experiments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subgraft.experiment.session import Finished, Session


def run(
    config: Path | str, overrides: Mapping[str, object] | Sequence[str] = (), *, address: str | None = None
) -> Finished:
    """Run an experiment, as `subgraft run` does: what is done already is not done again, and all of it is recorded.

    config: a YAML file, as in configs/.  overrides: of its settings, {"finetune.epochs": 5} or ["finetune.epochs=5"].
    address: of a Ray cluster; by default one on this machine.

    Raises UserError with all mistakes of the configuration, OperationalError where the disk, the network or a process
    fails: called again, it carries on.
    """
    from subgraft.terminal import Terminal

    return session_of(Path(config), overrides).run(Terminal(), address)


def session_of(config: Path, overrides: Mapping[str, object] | Sequence[str] = ()) -> Session:
    """An experiment in the store of this place. Raises UserError with everything that is wrong."""
    from subgraft.config.configfile import load
    from subgraft.config.experiment import Experiment

    if isinstance(overrides, Mapping):
        overrides = [f"{name}={json.dumps(value)}" for name, value in overrides.items()]  # JSON is YAML
    experiment = load(config, Experiment, overrides)
    from subgraft.experiment.session import Session  # after the configuration's mistakes, which need none of it

    return Session(experiment, config.absolute().parent)
