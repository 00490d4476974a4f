"""The tracking server of this store, for commands that read recorded runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from subgraft.base.errors import UserError
from subgraft.orchestration.store.home import default_home, other_store_hint
from subgraft.orchestration.tracking.server import Server, tracking_uri


@contextmanager
def recording_server() -> Iterator[Server]:
    """The server that the runs of this store are recorded on.

    Raises UserError if nothing has been recorded yet, OperationalError if the server does not answer.
    """
    require_recorded()
    server = Server(default_home())
    with server.answering():
        yield server


def require_recorded() -> None:
    """Raises UserError if nothing has been recorded in this store."""
    database = default_home() / "mlflow.db"
    if tracking_uri(default_home()) == f"sqlite:///{database}" and not database.is_file():
        hint = f"Run an experiment first, or set SUBGRAFT_HOME to where one was run.{other_store_hint()}"
        raise UserError("no run has been recorded here", where=str(default_home()), hint=hint)
