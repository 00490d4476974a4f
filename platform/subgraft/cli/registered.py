"""Where a model is that a command was given: a directory, a hub id, or a registered one."""

from __future__ import annotations

HELP = "a directory, a hub id, or models:/NAME@ALIAS"


def local_model(model: str) -> str:
    """The model as it was given; of a registered one the verified directory, fetched where it is remote."""
    if not model.startswith("models:/"):
        return model
    from subgraft.cli.experiments import recorded
    from subgraft.experiment.registry import Registry

    with recorded() as server:
        return str(Registry(server).resolve(model))
