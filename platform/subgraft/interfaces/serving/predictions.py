"""Routes of models with a head: POST /classify, /tag, /answer and /rank, by their tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from starlette.routing import Route

from subgraft.base.errors import UserError
from subgraft.base.security.http_requests import MAX_TEXTS, RefusedError, json_route
from subgraft.data.tasks.registry import LABELLED_TASKS
from subgraft.interfaces.serving.batching import Batcher
from subgraft.training.understanding.input_forms import InputForm
from subgraft.training.understanding.predictor import Prediction, Predictor

# The maximum characters of a text, and candidates or choices of an input.
MAX_TEXT_LENGTH, MAX_CANDIDATES = 20_000, 100
# The names under which a request may list its inputs.
_LISTS = ("texts", "pairs", "inputs")


class Predictions:
    """The routes. `batchers` are the models' queues, which the server runs."""

    def __init__(self, models: Mapping[str, Predictor], token: str, patience: float) -> None:
        self._models, self._token, self._patience = models, token, patience
        self._queues = {name: Batcher(partial(_predict, model)) for name, model in models.items()}

    @property
    def batchers(self) -> Sequence[Batcher[Any, Prediction]]:
        return list(self._queues.values())

    def routes(self) -> list[Route]:
        return [
            json_route(route, self._token, partial(self._predict, route))
            for route in dict.fromkeys(task.route for task in LABELLED_TASKS.values())
        ]

    def describe(self) -> list[dict[str, Any]]:
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

    async def _predict(self, route: str, body: bytes) -> dict[str, Any]:
        models = {name: model for name, model in self._models.items() if _route(model) == route}
        if not models:
            raise RefusedError(404, f"no model that answers POST {route} is served: GET /health names those that are")
        values = _values(body)
        requests = {name: _inputs(values, model.form) for name, model in models.items()}
        pending = [await self._queues[name].ask(inputs, self._patience) for name, inputs in requests.items()]
        answers = zip(models.items(), pending, strict=True)
        return {
            "models": [
                {
                    "model": name,
                    "task": model.name,
                    "seconds": round(seconds, 4),
                    "outputs": [
                        {**prediction.facts, "text": prediction.text, "truncated": prediction.truncated}
                        for prediction in outputs
                    ],
                }
                for (name, model), (outputs, seconds) in answers
            ]
        }


def _route(model: Predictor) -> str:
    return LABELLED_TASKS[model.name].route


def _predict(model: Predictor, inputs: Sequence[Any]) -> list[Prediction]:
    return list(model.predict(inputs))


def _values(body: bytes) -> list[Any]:
    """The inputs of {"inputs": […]}, of one of its other names, or of one input's fields. Raises RefusedError."""
    try:
        request: Any = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(400, "send JSON") from None
    lists = [name for name in _LISTS if isinstance(request, dict) and name in request]
    if not isinstance(request, dict) or len(lists) > 1:
        raise RefusedError(400, f"send an object with one of {', '.join(_LISTS)}, or with the fields of an input")
    values = request[lists[0]] if lists else [request]
    if not isinstance(values, list) or not values:
        raise RefusedError(400, f"{lists[0]}: a list")
    if len(values) > MAX_TEXTS:
        raise RefusedError(413, f"at most {MAX_TEXTS} inputs")
    return values


def _inputs(values: Sequence[Any], form: InputForm) -> list[Any]:
    """Raises RefusedError for an input of another form, or of too much text."""
    try:
        inputs = [form.of_value(value, f"input {number}") for number, value in enumerate(values, 1)]
    except UserError as error:
        raise RefusedError(400, f"{error.where}: {error.what}") from None
    for number, item in enumerate(inputs, 1):
        texts = [item] if isinstance(item, str) else [part for part in item if isinstance(part, str)]
        candidates = item[1] if form.several else []
        if any(len(text) > MAX_TEXT_LENGTH for text in (*texts, *candidates)) or len(candidates) > MAX_CANDIDATES:
            limits = f"at most {MAX_TEXT_LENGTH:,} characters of a text, and {MAX_CANDIDATES} {form.several or 'texts'}"
            raise RefusedError(413, f"input {number}: {limits}")
    return inputs
