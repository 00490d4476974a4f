"""The requests that MLflow's page accepts: to read everything recorded, and to change runs and models.

MLflow's server does more with each version: it accepts files, starts jobs, calls other servers. So requests that may
change something are allowed only if they are listed here.
"""

from __future__ import annotations

import re
from typing import Any

_EXPERIMENTS = "create|update|delete|restore|set-experiment-tag|delete-experiment-tag|search|search-datasets"
_RUNS = "create|update|delete|restore|set-tag|delete-tag|log-batch|log-metric|log-parameter|log-inputs|search"
_REGISTERED = "create|update|rename|delete|set-tag|delete-tag|alias|get-latest-versions"
_VERSIONS = "update|delete|set-tag|delete-tag|transition-stage"
_OPEN = re.compile(
    r"/graphql|/(?:ajax-)?api/(?:"
    rf"2\.0/mlflow/(?:experiments/(?:{_EXPERIMENTS})|runs/(?:{_RUNS})|registered-models/(?:{_REGISTERED})"
    rf"|model-versions/(?:{_VERSIONS})|logged-models/(?:search|[\w-]+|[\w-]+/tags|[\w-]+/tags/[^/]+))"
    r"|3\.0/mlflow/(?:datasets/search|issues/search|traces/(?:search|metrics|batchGetInfos)|ui-telemetry))"
)
# MLflow's assistant runs commands on this machine, and its proxy asks other servers.
_CLOSED = re.compile(r"/(?:ajax-)?api/(?:3\.0/mlflow/assistant|2\.0/mlflow/gateway-proxy)")


def is_open(method: str, path: str) -> bool:
    """Whether a request is allowed: it reads, or changes records of runs and models."""
    if method in ("GET", "HEAD", "OPTIONS"):
        return not _CLOSED.match(path)
    return bool(_OPEN.fullmatch(path))


def keep_artifacts_together(store: Any) -> None:
    """Make MLflow's store refuse experiments with artifacts outside its own root, whose files the page would show."""
    from mlflow.exceptions import MlflowException
    from mlflow.protos.databricks_pb2 import PERMISSION_DENIED

    create = store.create_experiment

    def create_here(name: str, artifact_location: str | None = None, tags: Any = None) -> Any:
        if artifact_location:
            raise MlflowException(
                "Leave artifact_location out: this page has one place for artifacts.", PERMISSION_DENIED
            )
        return create(name, None, tags)

    store.create_experiment = create_here
