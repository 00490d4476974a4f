"""The HTTP routes: a page with a text box, and with a token POST /translate, those of `completions.py` and
`predictions.py`, and GET /health, which says what is served.

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
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from subgraft.interfaces.serving.batching import Batcher
from subgraft.interfaces.serving.completions import Completions
from subgraft.interfaces.serving.predictions import Predictions
from subgraft.interfaces.serving.requests import (
    HEADERS,
    MOST_TEXTS,
    RefusedError,
    answered,
    body_of,
    check_token,
)
from subgraft.interfaces.serving.writer import Served, Writer
from subgraft.training.understanding.predictor import Predictor

# Characters in a text, and seconds until a request is answered.
LONGEST_TEXT = 2000
PATIENCE = 60.0
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


def application(
    models: Mapping[str, Served],
    token: str,
    patience: float = PATIENCE,
    names: Sequence[str] = LOCAL_NAMES,
) -> Starlette:
    """The application.

    Args:
        models: translators, language models and models that predict labels, by the names in the page and in answers.
        token: the token that requests need.
        patience: seconds until a request times out.
        names: host names that requests may use; "*" allows any.
    """
    writers = {name: model for name, model in models.items() if isinstance(model, Writer)}
    predictors = {name: model for name, model in models.items() if isinstance(model, Predictor)}
    completers = {name: model for name, model in models.items() if not isinstance(model, Writer | Predictor)}
    batchers = {name: Batcher(writer.answer) for name, writer in writers.items()}
    served, predicted = Completions(completers, token, patience), Predictions(predictors, token, patience)

    async def page(request: Request) -> Response:
        text = files("subgraft.interfaces.serving").joinpath("page.html").read_text(encoding="utf-8")
        return HTMLResponse(text, headers=HEADERS)

    async def translate(request: Request) -> Response:
        return await answered(translated(request))

    async def translated(request: Request) -> dict[str, Any]:
        check_token(request, token)
        if not writers:
            routes = dict.fromkeys(each["route"] for each in all_served())
            raise RefusedError(404, f"no model that translates is served: POST {' or '.join(routes)}")
        body = await body_of(request)
        texts, direction = _texts(body), _direction(body, writers)
        asked = [(direction, text) for text in texts]
        answers = await asyncio.gather(*(batcher.ask(asked, patience) for batcher in batchers.values()))
        both = zip(writers.items(), answers, strict=True)
        return {"models": [_described(name, writer, texts, direction, *answer) for (name, writer), answer in both]}

    async def health(request: Request) -> Response:
        return await answered(checked(request))

    async def checked(request: Request) -> dict[str, Any]:
        check_token(request, token)
        return {"models": all_served()}

    def all_served() -> list[dict[str, Any]]:
        written: list[dict[str, Any]] = [
            {"model": name, "task": "translation", "route": "/translate"}
            | ({"directions": [*writer.directions]} if writer.directions else {})
            for name, writer in writers.items()
        ]
        continued = [{"model": name, "task": "completion", "route": "/v1/completions"} for name in completers]
        return [*written, *continued, *predicted.described()]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(batcher.run()) for batcher in batchers.values()]
        tasks += [asyncio.create_task(batcher.run()) for batcher in served.batchers]
        tasks += [asyncio.create_task(batcher.run()) for batcher in predicted.batchers]
        yield
        for task in tasks:
            task.cancel()

    return Starlette(
        routes=[
            Route("/", page),
            Route("/health", health),
            Route("/translate", translate, methods=["POST"]),
            *served.routes(),
            *predicted.routes(),
        ],
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


def _direction(body: bytes, writers: Mapping[str, Writer]) -> str | None:
    """The `direction` of a request, as in de-en, if it names one. Raises RefusedError unless all models have it."""
    named: Any = json.loads(body).get("direction")
    for name, writer in writers.items() if named is not None else ():
        if not isinstance(named, str) or named not in writer.directions:
            raise RefusedError(400, f"direction: {name} has {', '.join(writer.directions) or 'one only'}")
    return None if named is None else str(named)


def _described(
    name: str, writer: Writer, texts: list[str], direction: str | None, outputs: list[str], seconds: float
) -> dict[str, Any]:
    """One model's answer; `seconds` are of the batch that the texts were part of."""
    source, _, target = (direction or "").partition("-")
    own = writer.languages and writer.languages.model_dump()
    return {
        "model": name,
        "engine": writer.engine,
        "languages": {"source": source, "target": target} if direction else own,
        "seconds": round(seconds, 4),
        "outputs": outputs,
        "source_pieces": [writer.source_pieces(text) for text in texts],
        "output_pieces": [writer.target_pieces(text) for text in outputs],
    }
