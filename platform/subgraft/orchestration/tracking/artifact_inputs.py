"""Models and artifacts that a user names, verified before use."""

from __future__ import annotations

from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.files import require_path


def local_model(model: str) -> str:
    """The local path or hub id of a model; a registered one is verified, and fetched if it is remote."""
    if not model.startswith("models:/"):
        require_sound(Path(model))
        return model  # as it was given: `./absent` is no hub id, and `absent` may be one
    from subgraft.orchestration.tracking.local_server import recording_server
    from subgraft.orchestration.tracking.model_registry import Registry

    with recording_server() as server:
        return str(Registry(server).resolve(model))


def require_sound(given: Path) -> Path:
    """What was given. Raises UserError for an artifact of a store that is not as its record says."""
    from subgraft.orchestration.store.record import RECORD, verified

    require_path(given)
    if (given / RECORD).is_file():
        try:
            verified(given, alone=False)  # a registered model has its card there
        except (OSError, ValueError) as error:
            hint = "Run its experiment again: damaged artifacts are made anew."
            raise UserError(f"a damaged artifact: {error}", where=str(given), hint=hint) from error
    return given
