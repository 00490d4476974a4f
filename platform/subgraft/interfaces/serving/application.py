"""The HTTP routes: a page to type in, and with a token POST /translate, those of `completions.py`, `predictions.py` and
`vocabularies.py`, and GET /health, which lists the served models.

The page itself needs no token; its script reads the token from the address's fragment, which browsers do not send.
Requests for another host name are refused, so that a web page cannot reach the server through a name of its own that
points to this machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from subgraft.base.limits import MAX_BEAM_SIZE
from subgraft.base.security.http_requests import (
    HEADERS,
    MAX_TEXTS,
    RefusedError,
    check_characters,
    json_object,
    json_route,
    page_policy,
)
from subgraft.experiments.origin import Origin
from subgraft.interfaces.serving.batching import Batcher
from subgraft.interfaces.serving.completions import Completions
from subgraft.interfaces.serving.predictions import Predictions
from subgraft.interfaces.serving.vocabularies import Vocabularies
from subgraft.interfaces.serving.writer import Served, Source, Writer
from subgraft.training.understanding.predictor import Predictor

# The maximum characters of a text, and seconds until a request times out.
MAX_TEXT_LENGTH = 2000
PATIENCE = 60.0
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


def application(
    models: Mapping[str, Served],
    token: str,
    patience: float = PATIENCE,
    names: Sequence[str] = LOCAL_NAMES,
    origins: Mapping[str, Origin] = MappingProxyType({}),
) -> Starlette:
    """The application.

    Args:
        models: translators, language models and models that predict labels, by the names in the page and in answers.
        token: the token that requests need.
        patience: seconds until a request times out.
        names: host names that requests may use; "*" allows any.
        origins: the models' vocabularies before their transfers, which the page compares.
    """
    endpoints = _Endpoints(models, token, patience, origins)
    return Starlette(
        routes=endpoints.routes(),
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=names)],
        lifespan=endpoints.lifespan,
    )


class _Endpoints:
    """The endpoints of the application, and the batchers of its models."""

    def __init__(
        self, models: Mapping[str, Served], token: str, patience: float, origins: Mapping[str, Origin]
    ) -> None:
        self._token, self._patience = token, patience
        self._writers = {name: model for name, model in models.items() if isinstance(model, Writer)}
        predictors = {name: model for name, model in models.items() if isinstance(model, Predictor)}
        self._completers = {name: model for name, model in models.items() if not isinstance(model, Writer | Predictor)}
        self._batchers = {name: Batcher(writer.answer) for name, writer in self._writers.items()}
        self._completions = Completions(self._completers, token, patience)
        self._predictions = Predictions(predictors, token, patience)
        self._vocabularies = Vocabularies(models, origins, token, patience)

    def routes(self) -> list[Route]:
        return [
            Route("/", self._page),
            json_route("/health", self._token, self._health, "GET"),
            json_route("/translate", self._token, self._translate),
            *self._completions.routes(),
            *self._predictions.routes(),
            *self._vocabularies.routes(),
        ]

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Run the batchers while the application is up."""
        batchers: list[Batcher[Any, Any]] = [
            *self._batchers.values(),
            *self._completions.batchers,
            *self._predictions.batchers,
            *self._vocabularies.batchers,
        ]
        tasks = [asyncio.create_task(batcher.run()) for batcher in batchers]
        yield
        for task in tasks:
            task.cancel()

    async def _page(self, request: Request) -> Response:
        text, policy = _page()
        return HTMLResponse(text, headers=HEADERS | {"Content-Security-Policy": policy})

    async def _translate(self, body: bytes) -> dict[str, Any]:
        if not self._writers:
            routes = dict.fromkeys(model["route"] for model in self._served())
            raise RefusedError(404, f"no model that translates is served: POST {' or '.join(routes)}")
        request = _request(body)
        texts, beam = _texts(request["texts"]), _beam(request.get("beam"))
        direction = _direction(request.get("direction"), self._writers)
        sources = [Source(text, direction, beam) for text in texts]
        # One model after another: together they would take each other's time, which the answer reports.
        answers = [await batcher.ask(sources, self._patience) for batcher in self._batchers.values()]
        answered = zip(self._writers.items(), answers, strict=True)
        return {
            "models": [_describe_answer(name, writer, texts, direction, *answer) for (name, writer), answer in answered]
        }

    async def _health(self, body: bytes) -> dict[str, Any]:
        return {"models": self._served()}

    def _served(self) -> list[dict[str, Any]]:
        """Each model's task, route and vocabularies."""
        translating: list[dict[str, Any]] = [
            {"model": name, "task": "translation", "route": "/translate", "engine": writer.engine, "beam": writer.beam}
            | ({"languages": writer.languages.model_dump()} if writer.languages else {})
            | ({"directions": [*writer.directions]} if writer.directions else {})
            for name, writer in self._writers.items()
        ]
        described = [*translating, *self._completions.describe(), *self._predictions.describe()]
        return [each | {"vocabularies": self._vocabularies.describe(each["model"])} for each in described]


@cache
def _page() -> tuple[str, str]:
    """The page, and its Content-Security-Policy."""
    text = files("subgraft.interfaces.serving").joinpath("page.html").read_text(encoding="utf-8")
    return text, page_policy(text)


def _request(body: bytes) -> dict[str, Any]:
    """The fields of {"texts": …, …}. Raises RefusedError for anything else."""
    with suppress(RefusedError):
        request = json_object(body)
        if "texts" in request:
            return request
    raise RefusedError(400, 'send JSON: {"texts": ["…"]}')


def _texts(texts: Any) -> list[str]:
    """Each text as one line. Raises RefusedError for anything but texts, and for too much text."""
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise RefusedError(400, "texts: a list of strings")
    if len(texts) > MAX_TEXTS or any(len(text) > MAX_TEXT_LENGTH for text in texts):
        raise RefusedError(413, f"at most {MAX_TEXTS} texts of {MAX_TEXT_LENGTH:,} characters")
    check_characters(texts)
    return [" ".join(text.splitlines()) for text in texts]


def _direction(direction: Any, writers: Mapping[str, Writer]) -> str | None:
    """A direction such as de-en, if a request names one. Raises RefusedError unless all models have it."""
    for name, writer in writers.items() if direction is not None else ():
        if not isinstance(direction, str) or direction not in writer.directions:
            raise RefusedError(400, f"direction: {name} has {', '.join(writer.directions) or 'one only'}")
    return None if direction is None else str(direction)


def _beam(beam: Any) -> int | None:
    """The size of a beam, if a request names one. Raises RefusedError for anything but a size."""
    if beam is not None and (type(beam) is not int or not 1 <= beam <= MAX_BEAM_SIZE):
        raise RefusedError(400, f"beam: a whole number from 1 to {MAX_BEAM_SIZE:,}")
    return None if beam is None else int(beam)


def _describe_answer(
    name: str, writer: Writer, texts: list[str], direction: str | None, outputs: list[str], seconds: float
) -> dict[str, Any]:
    """One model's answer; `seconds` are of the batch that the texts were part of."""
    source, _, target = (direction or "").partition("-")
    languages = writer.languages and writer.languages.model_dump()
    return {
        "model": name,
        "engine": writer.engine,
        "languages": {"source": source, "target": target} if direction else languages,
        "seconds": round(seconds, 4),
        "outputs": outputs,
        "source_pieces": [writer.source_pieces(text) for text in texts],
        "output_pieces": [writer.target_pieces(text) for text in outputs],
    }
