"""The gate in front of MLflow's page of the runs: its password, other sites' pages, and the requests that are allowed.

The browser sends the password by HTTP's Basic scheme (RFC 7617), to this address and port only: a cookie would be sent
to every port of the machine, one of which may be another user's.

MLflow's server does more with each version: it accepts files, starts jobs, calls other servers. So requests that may
change something are allowed only if they are listed here.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from starlette.types import ASGIApp

USER = "subgraft"
PASSWORD = "mlflow.password"  # the file in the store

_EXPERIMENTS = "create|update|delete|restore|set-experiment-tag|delete-experiment-tag|search|search-datasets"
_RUNS = "create|update|delete|restore|set-tag|delete-tag|log-batch|log-metric|log-parameter|log-inputs|search"
_REGISTERED = "create|update|rename|delete|set-tag|delete-tag|alias|get-latest-versions"
_VERSIONS = "update|delete|set-tag|delete-tag|transition-stage"
_ALLOWED = re.compile(
    r"/graphql|/(?:ajax-)?api/(?:"
    rf"2\.0/mlflow/(?:experiments/(?:{_EXPERIMENTS})|runs/(?:{_RUNS})|registered-models/(?:{_REGISTERED})"
    rf"|model-versions/(?:{_VERSIONS})|logged-models/(?:search|[\w-]+|[\w-]+/tags|[\w-]+/tags/[^/]+))"
    r"|3\.0/mlflow/(?:datasets/search|issues/search|traces/(?:search|metrics|batchGetInfos)|ui-telemetry))"
)
CLOSED = "This page shows runs and models; uploads, jobs, MLflow's assistant and other servers are closed on it."
# MLflow's assistant runs commands on this machine, and its proxy asks other servers.
_DENIED = re.compile(r"/(?:ajax-)?api/(?:3\.0/mlflow/assistant|2\.0/mlflow/gateway-proxy)")
# What every page of MLflow asks of them when it opens: they have nothing, where a refusal would be shown in red.
_NOTHING: Mapping[str, Mapping[str, Any]] = {
    "/ajax-api/3.0/mlflow/assistant/config": {"providers": {}, "projects": {}},
    "/ajax-api/3.0/mlflow/assistant/providers": {"providers": [], "resolved": None, "gateway_vendor_options": {}},
    "/ajax-api/2.0/mlflow/gateway-proxy": {"endpoints": []},
}


def is_open(method: str, path: str) -> bool:
    """Whether a request is allowed: it only reads, or it changes records of runs and models."""
    if method in ("GET", "HEAD", "OPTIONS"):
        return not _DENIED.match(path)
    return bool(_ALLOWED.fullmatch(path))


def refuse_other_artifact_locations(store: Any) -> None:
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


Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class PasswordGate:
    """Passes requests to an ASGI application if they carry the password and come from no other site's page.

    `start` makes the page at "/", which is not the application's.
    """

    def __init__(self, app: ASGIApp, password: str, start: Callable[[], str]) -> None:
        self._app = app
        self._start = start
        self._expected = b"Basic " + base64.b64encode(f"{USER}:{password}".encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif (refusal := self._refusal(scope)) is not None:
            await _answer(send, *refusal)
        elif scope["method"] == "GET" and scope["path"] == "/":
            await _answer(send, 200, await asyncio.to_thread(self._start))
        elif scope["method"] == "GET" and scope["path"] in _NOTHING:
            await _answer(send, 200, json.dumps(_NOTHING[scope["path"]]), "application/json")
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str, str] | None:
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        if not secrets.compare_digest(headers.get(b"authorization", b""), self._expected):
            return 401, f"User {USER}, and the password in {PASSWORD} of the store.", "text/plain"
        origin = headers.get(b"origin")
        if origin is not None and origin != b"http://" + headers.get(b"host", b""):
            # MLflow itself lets every port of this machine.
            return 403, "Another site's page may not ask this one.", "text/plain"
        is_answered = is_open(scope["method"], scope["path"]) or (
            scope["method"] == "GET" and scope["path"] in _NOTHING
        )
        return None if is_answered else (404, CLOSED, "text/plain")


async def _answer(send: Send, status: int, text: str, kind: str = "text/html") -> None:
    headers = [(b"content-type", f"{kind}; charset=utf-8".encode()), (b"cache-control", b"no-store")]
    if status == 401:
        headers.append((b"www-authenticate", b'Basic realm="subgraft", charset="UTF-8"'))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
