"""The HTTP routes: a page with a text box, and with a token POST /translate and those of `completions.py`.

The page itself needs no token; its script reads the token from the address's fragment, which browsers do not send.
Requests for another host name are refused, so that a web page cannot reach the server through a name of its own that
points to this machine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from subgraft.interfaces.serving.batching import Batcher, BusyError
from subgraft.interfaces.serving.completions import Completions
from subgraft.interfaces.serving.requests import (
    HEADERS,
    MOST_TEXTS,
    RefusedError,
    body_of,
    check_token,
)
from subgraft.interfaces.serving.writer import Writer
from subgraft.modeling.inference.complete import Completer

# Characters in a text, and seconds until a request is answered.
LONGEST_TEXT = 2000
PATIENCE = 60.0
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


def application(
    models: Mapping[str, Writer | Completer], token: str, patience: float = PATIENCE, names: Sequence[str] = LOCAL_NAMES
) -> Starlette:
    """The application.

    Args:
        models: translators and language models, by the names in the page and in answers.
        token: the token that requests need.
        patience: seconds until a request times out.
        names: host names that requests may use; "*" allows any.
    """
    writers = {name: model for name, model in models.items() if isinstance(model, Writer)}
    completers = {name: model for name, model in models.items() if not isinstance(model, Writer)}
    batchers = {name: Batcher(writer.write) for name, writer in writers.items()}
    served = Completions(completers, token, patience)

    async def page(request: Request) -> Response:
        text = files("subgraft.interfaces.serving").joinpath("page.html").read_text(encoding="utf-8")
        return HTMLResponse(text, headers=HEADERS)

    async def translate(request: Request) -> Response:
        try:
            check_token(request, token)
            if not writers:
                raise RefusedError(404, "no model that translates is served: POST /v1/completions")
            texts = _texts(await body_of(request))
            answers = await asyncio.gather(*(batcher.ask(texts, patience) for batcher in batchers.values()))
        except ClientDisconnect:
            return Response(status_code=400, headers=HEADERS)  # which nobody reads: the client has left
        except RefusedError as refused:
            return JSONResponse({"error": str(refused)}, refused.status, headers=HEADERS)
        except BusyError:
            return JSONResponse({"error": "too many requests are waiting"}, 503, headers=HEADERS)
        except TimeoutError:
            return JSONResponse({"error": "the answer took too long"}, 504, headers=HEADERS)
        answered = zip(writers.items(), answers, strict=True)
        described = [_described(name, writer, texts, *answer) for (name, writer), answer in answered]
        return JSONResponse({"models": described}, headers=HEADERS)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(batcher.run()) for batcher in batchers.values()]
        tasks += [asyncio.create_task(batcher.run()) for batcher in served.batchers]
        yield
        for task in tasks:
            task.cancel()

    return Starlette(
        routes=[Route("/", page), Route("/translate", translate, methods=["POST"]), *served.routes()],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=names)],
        lifespan=lifespan,
    )


def _texts(body: bytes) -> list[str]:
    """The texts of {"texts": ["…", …]}. Raises RefusedError for anything else."""
    try:
        request: Any = json.loads(body)
        texts = request["texts"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise RefusedError(400, 'send JSON: {"texts": ["…"]}') from None
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise RefusedError(400, "texts: a list of strings")
    if len(texts) > MOST_TEXTS or any(len(text) > LONGEST_TEXT for text in texts):
        raise RefusedError(413, f"at most {MOST_TEXTS} texts of {LONGEST_TEXT:,} characters")
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        raise RefusedError(400, "half a character") from None
    return [" ".join(text.splitlines()) for text in texts]


def _described(name: str, writer: Writer, texts: list[str], outputs: list[str], seconds: float) -> dict[str, Any]:
    """One model's answer; `seconds` are of the batch that the texts were part of."""
    return {
        "model": name,
        "engine": writer.engine,
        "languages": writer.languages and writer.languages.model_dump(),
        "seconds": round(seconds, 4),
        "outputs": outputs,
        "source_pieces": [writer.source_pieces(text) for text in texts],
        "output_pieces": [writer.target_pieces(text) for text in outputs],
    }
