"""Requests to a served model: the token, the size and time of a body, headers of answers, and refusals."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from subgraft.base.security.http_server import has_token

# The maximum bytes of a request, and its texts or prompts.
MAX_BODY_BYTES, MAX_TEXTS = 64 * 1024, 32
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class RefusedError(Exception):
    """A refused request: its HTTP status and the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def check_token(request: Request, token: str) -> None:
    if not has_token(request.headers.raw, token):
        raise RefusedError(401, "give the token: Authorization: Bearer TOKEN")


async def body_of(request: Request) -> bytes:
    """The body, bounded in size and in time."""
    body = b""
    try:
        async with asyncio.timeout(30):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    raise RefusedError(413, f"more than {MAX_BODY_BYTES:,} bytes")
    except TimeoutError:
        raise RefusedError(408, "the request took too long to come") from None
    return body


def json_object(body: bytes) -> dict[str, Any]:
    """The JSON object of a body. Raises RefusedError for anything else."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(400, "send JSON") from None
    if not isinstance(request, dict):
        raise RefusedError(400, "send a JSON object")
    return request


def check_characters(texts: Iterable[str]) -> None:
    """Raises RefusedError for half of a surrogate pair, which JSON can escape and no vocabulary can encode."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise RefusedError(400, "half a character") from None


def json_route(path: str, token: str, work: Callable[[bytes], Awaitable[Any]], method: str = "POST") -> Route:
    """A route that answers requests which have the token: the result of `work` of the body as JSON, or its error."""

    async def answer(request: Request) -> Response:
        try:
            check_token(request, token)
            return JSONResponse(await work(await body_of(request)), headers=HEADERS)
        except ClientDisconnect:
            return Response(status_code=400, headers=HEADERS)  # the client has disconnected, so nobody reads it
        except RefusedError as refused:
            return JSONResponse({"error": str(refused)}, refused.status, headers=HEADERS)
        except TimeoutError:
            return JSONResponse({"error": "the answer took too long"}, 504, headers=HEADERS)

    return Route(path, answer, methods=[method])


def page_policy(page: str) -> str:
    """The Content-Security-Policy under which browsers run a page's own script and style, and read no text as HTML."""
    allowed = []
    for name in ("script", "style"):
        content = re.findall(rf"<{name}>(.*?)</{name}>", page, flags=re.DOTALL)
        digests = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in content)
        allowed.append(" ".join([f"{name}-src", *(f"'sha256-{digest}'" for digest in digests)]))
    further = (
        *("connect-src 'self'", "img-src data:", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"),
        *("require-trusted-types-for 'script'", "trusted-types 'none'"),
    )
    return "; ".join(("default-src 'none'", *allowed, *further))
