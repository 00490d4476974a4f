"""Routes of models with a head: POST /classify, /tag, /answer and /rank, by their tasks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from subgraft.base.errors import UserError
from subgraft.interfaces.serving.batching import Batcher
from subgraft.interfaces.serving.requests import MOST_TEXTS, RefusedError, answered, body_of, check_token
from subgraft.training.understanding.input_forms import InputForm
from subgraft.training.understanding.predictor import Prediction, Predictor

# Characters of a text, and candidates or choices of an input.
LONGEST, MOST_CANDIDATES = 20_000, 100
# The route of each task; all others classify.
_ROUTES: Mapping[str, str] = {
    "tagging": "/tag",
    "span-extraction": "/answer",
    "ranking": "/rank",
    "multiple-choice": "/rank",
}
CLASSIFY = "/classify"
# The fields that have the inputs of a request.
_LISTS = ("texts", "pairs", "inputs")


class Predictions:
    """The routes. `batchers` are the models' queues, which the server runs."""

    def __init__(self, models: Mapping[str, Predictor], token: str, patience: float) -> None:
        self._models, self._token, self._patience = models, token, patience
        self._queues = {name: Batcher(_predicted_by(model)) for name, model in models.items()}

    @property
    def batchers(self) -> Sequence[Batcher[Any, Prediction]]:
        return list(self._queues.values())

    def routes(self) -> list[Route]:
        return [
            Route(route, partial(self._answer, route), methods=["POST"])
            for route in dict.fromkeys((CLASSIFY, *_ROUTES.values()))
        ]

    def described(self) -> list[dict[str, Any]]:
        """Each model's task, its route, and the fields of an input."""
        return [
            {
                "model": name,
                "task": model.name,
                "route": _route(model),
                "labels": list(model.labels),
                "fields": {"texts": model.form.texts, "list": model.form.several, "spans": model.form.spans},
            }
            for name, model in self._models.items()
        ]

    async def _answer(self, route: str, request: Request) -> Response:
        return await answered(self._predicted(route, request))

    async def _predicted(self, route: str, request: Request) -> dict[str, Any]:
        check_token(request, self._token)
        models = {name: model for name, model in self._models.items() if _route(model) == route}
        if not models:
            raise RefusedError(404, f"no model that answers POST {route} is served: GET /health names those that are")
        values = _values(await body_of(request))
        asked = {name: _inputs(values, model.form) for name, model in models.items()}
        waiting = (self._queues[name].ask(inputs, self._patience) for name, inputs in asked.items())
        answers = zip(models.items(), await asyncio.gather(*waiting), strict=True)
        return {
            "models": [
                {
                    "model": name,
                    "task": model.name,
                    "seconds": round(seconds, 4),
                    "outputs": [{**each.facts, "text": each.text, "cut": each.cut} for each in outputs],
                }
                for (name, model), (outputs, seconds) in answers
            ]
        }


def _route(model: Predictor) -> str:
    return _ROUTES.get(model.name, CLASSIFY)


def _predicted_by(model: Predictor) -> Callable[[Sequence[Any]], list[Prediction]]:
    return lambda inputs: list(model.predict(inputs))


def _values(body: bytes) -> list[Any]:
    """The inputs of {"inputs": […]}, of one of its other names, or of one input's fields. Raises RefusedError."""
    try:
        request: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(400, "send JSON") from None
    named = [name for name in _LISTS if isinstance(request, dict) and name in request]
    if not isinstance(request, dict) or len(named) > 1:
        raise RefusedError(400, f"send an object with one of {', '.join(_LISTS)}, or with the fields of an input")
    values = request[named[0]] if named else [request]
    if not isinstance(values, list) or not values:
        raise RefusedError(400, f"{named[0]}: a list")
    if len(values) > MOST_TEXTS:
        raise RefusedError(413, f"at most {MOST_TEXTS} inputs")
    return values


def _inputs(values: Sequence[Any], form: InputForm) -> list[Any]:
    """Raises RefusedError for an input of another form, or of too much text."""
    try:
        inputs = [form.of_value(value, f"input {number}") for number, value in enumerate(values, 1)]
    except UserError as error:
        raise RefusedError(400, f"{error.where}: {error.what}") from None
    for number, asked in enumerate(inputs, 1):
        texts = [asked] if isinstance(asked, str) else [part for part in asked if isinstance(part, str)]
        several = asked[1] if form.several else []
        if any(len(text) > LONGEST for text in (*texts, *several)) or len(several) > MOST_CANDIDATES:
            what = f"at most {LONGEST:,} characters of a text, and {MOST_CANDIDATES} {form.several or 'texts'}"
            raise RefusedError(413, f"input {number}: {what}")
    return inputs
