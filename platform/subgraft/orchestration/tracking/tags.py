"""The tags of tracked runs and registered models."""

from __future__ import annotations

import getpass
from collections.abc import Iterator, Mapping

from subgraft.orchestration.store.provenance import Provenance

# The kind of a run that shows a system under one seed; and the parts that its training and its test have in it.
SYSTEM, TRAINED, TEST = "system", "finetune", "test"
UPSTREAM_AFTER = "upstream_after"
# Fingerprints that a run has of its own begin with this; those of what it found have their first digits in others.
FINGERPRINT, FOUND = "fingerprint", "found"
SHORT = 12
_PER_TAG = 300


def found_tags(fingerprints: list[str]) -> dict[str, str]:
    """Tags that list the artifacts a run found in the store, in as few tags as their length allows."""
    short = [one[:SHORT] for one in fingerprints]
    parts = [short[start : start + _PER_TAG] for start in range(0, len(short), _PER_TAG)]
    return {f"{FOUND}.{number}": " ".join(part) for number, part in enumerate(parts, 1)}


def fingerprints_in(tags: Mapping[str, str]) -> Iterator[str]:
    """The abbreviated fingerprints of all artifacts that a run made or found."""
    for name, value in tags.items():
        head, _, _ = name.partition(".")
        if head in (FINGERPRINT, FOUND):
            yield from (one[:SHORT] for one in value.split())


# Where a run came from, as MLflow's own page tells it: the command, the commit, and who ran it.


def source_tags(provenance: Provenance) -> Mapping[str, str]:
    """Tags of every run; those of an unknown commit are omitted.

    The commit is that of the checkout with the package; `mlflow.source.git.dirty` says whether it had changes.
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
