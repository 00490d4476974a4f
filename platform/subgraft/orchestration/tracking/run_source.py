"""Where a run came from, as MLflow's own page tells it: the command, the commit, and who ran it."""

from __future__ import annotations

import getpass
from collections.abc import Mapping

from subgraft.orchestration.store.provenance import Provenance


def source_tags(provenance: Provenance) -> Mapping[str, str]:
    """Tags of every run; what is not known of a commit is left out.

    A commit is of the checkout that the package lies in, and `mlflow.source.git.dirty` says whether it was changed.
    """
    commit = provenance.git_commit or ""
    tags = {
        "mlflow.source.name": " ".join(["subgraft", *provenance.argv[1:]]),
        "mlflow.source.type": "LOCAL",
        "mlflow.user": _user(),
        "git_commit": commit,
    }
    if commit:
        tags["mlflow.source.git.commit"] = commit.removesuffix("+")
        tags["mlflow.source.git.dirty"] = str(commit.endswith("+")).lower()
    return tags


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        return ""
