"""Chat templates are programs by a model's author: each runs in a separate process, in Jinja's sandbox, within limits.

The sandbox keeps a template away from files, the network and Python's internals, but lets it count to any number and
repeat any text. The process stays for later conversations, so that a rendering costs little more than the template's
own time, and is replaced after it exceeded a limit.

    python -P -m subgraft.base.security.chat_process DESCRIPTOR
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.security.limited_process import limit_memory, limit_processor_time
from subgraft.base.security.limits import CHAT_MEMORY, CHAT_SECONDS, CHAT_TEXT, Limit

# The limit of wall time: the start of the process, and a multiple of the CPU time for a busy machine.
_START_SECONDS, _PATIENCE = 60, 10
_LIMITS: Mapping[str, Limit] = {"seconds": CHAT_SECONDS, "memory": CHAT_MEMORY, "text": CHAT_TEXT}
_EXCEEDED: Mapping[str, str] = {
    "seconds": "it takes too long to fill in",
    "memory": "it takes too much memory",
    "text": "it writes too much text",
}
# The longest part of a template's own error that is shown.
_MESSAGE = 300


class Part(NamedTuple):
    """One rendering: `messages` with role and content, and whether to append the beginning of an answer."""

    messages: Sequence[Mapping[str, str]]
    prompt: bool = False


class Rendered(NamedTuple):
    """A conversation as text, and the bounds of the answers that the template marks, if these were asked for."""

    text: str
    answers: Sequence[tuple[int, int]]


class ChatProcess:
    """The process of one template; threads take turns."""

    def __init__(self, template: str) -> None:
        self._template = template
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def render(
        self, parts: Sequence[Part], variables: Mapping[str, Any], *, mark_answers: bool = False
    ) -> list[Rendered]:
        """The renderings of one conversation's parts, which have the limits together.

        variables: further variables of the template. Raises UserError for an invalid template, one that refuses the
        conversation, and one that exceeds a limit.
        """
        asked = {"parts": parts, "variables": {**variables, "return_assistant_tokens_mask": mark_answers}}
        with self._lock:
            try:
                self._running = self._running or _Running.start(self, self._template)
                answer = self._running.ask(asked)
            except BaseException:  # an interrupt too: the next request must not get this one's answer
                if self._running is not None:
                    self._running.end()
                    self._running = None
                raise
        if "error" in answer:
            raise ArgumentError(f"the chat template cannot be used: {answer['error']}", where="chat")
        if "limit" in answer:
            raise _limit_error(answer["limit"])
        return [Rendered(text, [(start, end) for start, end in answers]) for text, answers in answer["parts"]]


class _Running(NamedTuple):
    """A started process. end: kills it, also when its owner is gone or this process ends."""

    process: subprocess.Popen[bytes]
    connection: Connection
    end: Callable[[], Any]

    @classmethod
    def start(cls, owner: ChatProcess, template: str) -> _Running:
        limits = {name: limit.value for name, limit in _LIMITS.items()}
        ours, theirs = Pipe()
        with theirs:
            # -P: `-m` alone would look for code in the current directory first.
            command = [sys.executable, "-P", "-m", __name__, str(theirs.fileno())]
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # Stacks of other threads would count as memory.
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                start_new_session=True,  # Ctrl+C is for the command, which ends this process
            )
        running = cls(process, ours, weakref.finalize(owner, _end, process, ours))
        running._send({"template": template, **limits})
        running._answer(_START_SECONDS)
        return running

    def ask(self, request: Mapping[str, Any]) -> Any:
        self._send(request)
        return self._answer(_PATIENCE * CHAT_SECONDS.value)

    def _send(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(BrokenPipeError):  # `_answer` says why
            self.connection.send_bytes(json.dumps(message).encode())

    def _answer(self, seconds: int) -> Any:
        try:
            if self.connection.poll(seconds):
                return json.loads(self.connection.recv_bytes())
        except (EOFError, ConnectionError):
            code = self.process.wait(_START_SECONDS)
            if code != -signal.SIGXCPU:
                what = f"its process ended with {code}"
                raise ArgumentError(f"the chat template cannot be used: {what}", where="chat") from None
        raise _limit_error("seconds")


@lru_cache(maxsize=8)
def process_of(template: str) -> ChatProcess:
    """The process of this template, which all its conversations share."""
    return ChatProcess(template)


def _end(process: subprocess.Popen[bytes], connection: Connection) -> None:
    connection.close()
    process.kill()
    process.wait()


def _limit_error(name: str) -> UserError:
    hint = f"{_LIMITS[name].hint} A template from elsewhere may be hostile: read it first."
    return ArgumentError(f"the chat template cannot be used: {_EXCEEDED[name]}", where="chat", hint=hint)


def main() -> None:
    """Answer requests until the parent closes the connection, or ends."""
    from transformers.utils.chat_template_utils import render_jinja_template

    connection = Connection(int(sys.argv[1]))
    started = json.loads(connection.recv_bytes())
    limit_memory(started["memory"])
    connection.send_bytes(b"{}")
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            request = json.loads(connection.recv_bytes())
            fill_in = partial(render_jinja_template, chat_template=started["template"], **request["variables"])
            limit_processor_time(started["seconds"])
            answer = _render(fill_in, request["parts"], started["text"])
            connection.send_bytes(json.dumps(answer).encode())


def _render(fill_in: Callable[..., Any], parts: Sequence[tuple[Any, bool]], room: int) -> dict[str, Any]:
    """The texts of a conversation's parts, or why there are none. room: characters that the template may add."""
    rendered = []
    try:
        for messages, prompt in parts:
            texts, marked = fill_in([messages], add_generation_prompt=prompt)
            room -= len(texts[0]) - sum(len(message["content"]) for message in messages)
            if room < 0:
                return {"limit": "text"}
            rendered.append((texts[0], marked[0] if marked else []))
    except MemoryError:
        return {"limit": "memory"}
    except Exception as error:  # a template can raise any
        return {"error": str(error)[:_MESSAGE] or type(error).__name__}
    return {"parts": rendered}


if __name__ == "__main__":
    main()
