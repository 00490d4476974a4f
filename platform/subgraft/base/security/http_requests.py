"""Requests to a served model: the token, the size and time of a body, headers of answers, and refusals."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Awaitable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

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


async def respond(work: Awaitable[Any]) -> Response:
    """The result of a request as JSON, or the error for which there is none."""
    try:
        return JSONResponse(await work, headers=HEADERS)
    except ClientDisconnect:
        return Response(status_code=400, headers=HEADERS)  # the client has disconnected, so nobody reads it
    except RefusedError as refused:
        return JSONResponse({"error": str(refused)}, refused.status, headers=HEADERS)
    except TimeoutError:
        return JSONResponse({"error": "the answer took too long"}, 504, headers=HEADERS)


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
