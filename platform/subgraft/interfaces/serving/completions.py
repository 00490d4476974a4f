"""Routes in the form of OpenAI's API for language models: /v1/completions, /v1/chat/completions and /v1/models.

Clients of that API work with `base_url` and the token as their key. Fields that would change the answer and are not
supported are refused, not ignored.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from subgraft.base.errors import UserError
from subgraft.base.security.http_requests import (
    HEADERS,
    MAX_TEXTS,
    RefusedError,
    body_of,
    check_token,
    json_object,
)
from subgraft.interfaces.serving.batching import Batcher
from subgraft.modeling.inference.complete import Completer, Completion, Sampling
from subgraft.modeling.inference.prompts import ChatTemplate, chat_template

# Values of unsupported fields that change nothing, which some clients send in every request.
_NEUTRAL: Mapping[str, Sequence[Any]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "suffix": ("",),
}
_IGNORED = ("user", "metadata", "store")
_Text = Annotated[str, Field(max_length=20_000)]


class _Options(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    model: str
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    stop: _Text | Annotated[list[_Text], Field(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: dict[str, bool] | None = None


class _PromptRequest(_Options):
    prompt: _Text | Annotated[list[_Text], Field(min_length=1, max_length=MAX_TEXTS)]


class _Message(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    role: _Text
    content: _Text


class _ChatRequest(_Options):
    messages: Annotated[list[_Message], Field(min_length=1)]


@dataclass(frozen=True)
class _Form:
    """The names of an answer's parts: of a text, or of a chat's message."""

    kind: str
    chunk: str
    prefix: str
    choice: Callable[[str], dict[str, Any]]
    part: Callable[[str], dict[str, Any]]
    opening: Mapping[str, Any]
    ending: Mapping[str, Any]


_TEXT = _Form(
    kind="text_completion",
    chunk="text_completion",
    prefix="cmpl",
    choice=lambda text: {"text": text},
    part=lambda text: {"text": text},
    opening={"text": ""},
    ending={"text": ""},
)
_CHAT = _Form(
    kind="chat.completion",
    chunk="chat.completion.chunk",
    prefix="chatcmpl",
    choice=lambda text: {"message": {"role": "assistant", "content": text}},
    part=lambda text: {"delta": {"content": text}},
    opening={"delta": {"role": "assistant", "content": ""}},
    ending={"delta": {}},
)


class Completions:
    """The routes. `batchers` are the models' queues, which the server runs."""

    def __init__(self, models: Mapping[str, Completer], token: str, patience: float) -> None:
        self._models, self._token, self._patience = models, token, patience
        self._queues = {name: Batcher(partial(_complete, model)) for name, model in models.items()}
        # Templates are filled in by another process, which may take its time: other routes do not wait for it.
        self._chats = {name: Batcher(_prompts_with(name, model)) for name, model in models.items()}
        self._created = int(time.time())

    @property
    def batchers(self) -> Sequence[Batcher[Any, Any]]:
        return [*self._queues.values(), *self._chats.values()]

    def describe(self) -> list[dict[str, Any]]:
        """Each model's task and route, whether it answers conversations, and its length in tokens."""
        return [
            {
                "model": name,
                "task": "completion",
                "route": "/v1/completions",
                "engine": model.engine,
                "chat": chat_template(model.tokenizer) is not None,
                "max_positions": model.max_positions,
            }
            for name, model in self._models.items()
        ]

    def routes(self) -> list[Route]:
        return [
            Route("/v1/models", self._list),
            Route("/v1/completions", self._complete, methods=["POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
        ]

    async def _list(self, request: Request) -> Response:
        try:
            check_token(request, self._token)
        except RefusedError as refused:
            return _refusal(refused)
        facts = {"object": "model", "created": self._created, "owned_by": "subgraft"}
        return JSONResponse(
            {"object": "list", "data": [{"id": name, **facts} for name in self._models]}, headers=HEADERS
        )

    async def _complete(self, request: Request) -> Response:
        return await self._respond(request, _PromptRequest, _TEXT)

    async def _chat(self, request: Request) -> Response:
        return await self._respond(request, _ChatRequest, _CHAT)

    async def _respond(self, request: Request, kind: type[_PromptRequest | _ChatRequest], form: _Form) -> Response:
        try:
            check_token(request, self._token)
            options = _read(await body_of(request), kind)
            model = self._model(options.model)
            prompts = await self._conversation(options) if isinstance(options, _ChatRequest) else _texts(options, model)
            completions = _completions(options, prompts, model)
            facts = {
                "id": f"{form.prefix}-{secrets.token_hex(12)}",
                "created": int(time.time()),
                "model": options.model,
            }
            queue = self._queues[options.model]
            if options.stream:
                usage = bool((options.stream_options or {}).get("include_usage"))
                events = _Stream(completions, form, facts, self._patience, usage).sent(queue)
                return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)
            await _until_done(queue, completions, self._patience)
        except ClientDisconnect:
            return Response(status_code=400, headers=HEADERS)  # the client has disconnected, so nobody reads it
        except RefusedError as refused:
            return _refusal(refused)
        except TimeoutError:
            return _refusal(RefusedError(504, "the answer took too long: ask for fewer tokens, or for a stream"))
        choices = [
            _choice(form.choice(completion.text), number, completion.finish)
            for number, completion in enumerate(completions)
        ]
        answer = {**facts, "object": form.kind, "choices": choices, "usage": _usage(completions)}
        return JSONResponse(answer, headers=HEADERS)

    async def _conversation(self, request: _ChatRequest) -> list[list[int]]:
        turns = [message.model_dump() for message in request.messages]
        answer = await self._chats[request.model].ask([turns], self._patience)
        (prompt,) = answer.outputs
        if isinstance(prompt, UserError):
            raise RefusedError(400, f"messages: {prompt.what}")
        return [prompt]

    def _model(self, name: str) -> Completer:
        if name not in self._models:
            served = ", ".join(self._models) or "no language model"
            raise RefusedError(404, f"model: {name!r:.100} is not served; there is {served}")
        return self._models[name]


class _Stream:
    """One request's Server-Sent Events."""

    def __init__(
        self, completions: list[Completion], form: _Form, facts: Mapping[str, Any], patience: float, usage: bool
    ) -> None:
        self._completions, self._form, self._patience, self._usage = completions, form, patience, usage
        self._facts = {**facts, "object": form.chunk}
        self._parts: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()

    def sent(self, queue: Batcher[Completion, None]) -> AsyncIterator[str]:
        """The events. Raises RefusedError at once if too many requests wait."""
        loop = asyncio.get_running_loop()
        for number, completion in enumerate(self._completions):
            completion.on_text = partial(self._report, loop, number)
        answer = queue.submit(self._completions)
        answer.add_done_callback(lambda done: self._parts.put_nowait(None))
        return self._events(answer)

    def _report(self, loop: asyncio.AbstractEventLoop, number: int, text: str) -> None:
        """Called in the engine's thread."""
        loop.call_soon_threadsafe(self._parts.put_nowait, (number, text))

    async def _events(self, answer: asyncio.Future[Any]) -> AsyncIterator[str]:
        try:
            for number in range(len(self._completions)):
                yield self._event(choices=[_choice(self._form.opening, number, None)])
            async with asyncio.timeout(self._patience):
                while (part := await self._parts.get()) is not None:
                    yield self._event(choices=[_choice(self._form.part(part[1]), part[0], None)])
            answer.result()
            for number, completion in enumerate(self._completions):
                yield self._event(choices=[_choice(self._form.ending, number, completion.finish)])
            if self._usage:
                yield self._event(choices=[], usage=_usage(self._completions))
            yield "data: [DONE]\n\n"
        except TimeoutError:
            yield f"data: {json.dumps(_error('the answer took too long', 504))}\n\n"
        finally:
            _cancel(self._completions, answer)

    def _event(self, **parts: Any) -> str:
        return f"data: {json.dumps({**self._facts, **parts})}\n\n"


async def _until_done(queue: Batcher[Completion, None], completions: list[Completion], patience: float) -> None:
    answer = queue.submit(completions)
    try:
        await asyncio.wait_for(answer, patience)
    finally:
        _cancel(completions, answer)


def _cancel(completions: Sequence[Completion], answer: asyncio.Future[Any]) -> None:
    """Stop the generation of unfinished completions, which nobody reads."""
    for completion in completions:
        completion.cancelled = True
    answer.cancel()


def _complete(model: Completer, completions: Sequence[Completion]) -> list[None]:
    model(completions)
    return [None] * len(completions)


def _read(body: bytes, kind: type[_PromptRequest | _ChatRequest]) -> _PromptRequest | _ChatRequest:
    fields = {name: value for name, value in json_object(body).items() if name not in _IGNORED and value is not None}
    for name in [name for name in fields if name in _NEUTRAL]:
        if fields.pop(name) not in _NEUTRAL[name]:
            raise RefusedError(400, f"{name}: not supported; leave it out")
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = first["loc"][0] if first["loc"] else "a field's name"
        raise RefusedError(400, f"{where}: {first['msg']}") from None


def _prompts_with(name: str, model: Completer) -> Callable[[Sequence[Any]], list[list[int] | UserError]]:
    """The ids of conversations by the model's chat template, or why there are none."""

    template = cache(partial(ChatTemplate.of, model.tokenizer, name))

    def ids(turns: Sequence[Mapping[str, str]]) -> list[int] | UserError:
        try:
            return template().ids([turns], model.max_positions)[0]
        except UserError as error:
            return error

    return lambda conversations: [ids(turns) for turns in conversations]


def _texts(request: _PromptRequest, model: Completer) -> list[list[int]]:
    texts = [request.prompt] if isinstance(request.prompt, str) else request.prompt
    return [[model.start, *ids] for ids in model.tokenizer.encode_batch(texts)]


def _completions(request: _Options, prompts: Sequence[list[int]], model: Completer) -> list[Completion]:
    """A completion for each prompt. Raises RefusedError for a prompt that is too long for the model."""
    default = model.max_positions if isinstance(request, _ChatRequest) else 16
    available = model.max_positions - max(map(len, prompts))
    max_tokens = request.max_completion_tokens or request.max_tokens or max(1, min(default, available))
    if max_tokens > available:
        limit, longest = model.max_positions, max(map(len, prompts))
        message = f"the model takes {limit:,} tokens: the prompt has {longest:,}, and {max_tokens:,} are asked for"
        raise RefusedError(400, f"max_tokens: {message}")
    temperature, top_p = (1.0 if value is None else value for value in (request.temperature, request.top_p))
    if request.seed is not None and not model.seeds:
        raise RefusedError(400, f"seed: {model.engine} cannot repeat what it draws; leave it out")
    stops = [request.stop] if isinstance(request.stop, str) else request.stop or []
    sampling = Sampling(temperature, top_p if temperature else 1.0, request.seed if temperature else None)
    return [Completion(ids, max_tokens, sampling, tuple(filter(None, stops))) for ids in prompts]


def _choice(content: Mapping[str, Any], number: int, finish: str | None) -> dict[str, Any]:
    return {"index": number, **content, "logprobs": None, "finish_reason": finish}


def _usage(completions: Sequence[Completion]) -> dict[str, int]:
    prompt = sum(len(completion.prompt) for completion in completions)
    generated = sum(len(completion.written) for completion in completions)
    return {"prompt_tokens": prompt, "completion_tokens": generated, "total_tokens": prompt + generated}


def _refusal(refused: RefusedError) -> Response:
    return JSONResponse(_error(str(refused), refused.status), refused.status, headers=HEADERS)


def _error(message: str, status: int) -> dict[str, Any]:
    """OpenAI's form of an error."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    code = {401: "invalid_api_key", 404: "model_not_found"}.get(status)
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
