"""Batches the requests that arrive while the model is busy, and shortly after."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from subgraft.base.security.http_requests import RefusedError

# The items of one batch, and the maximum number of waiting requests; further ones are refused.
BATCH_SIZE, MAX_WAITING = 64, 256
# Seconds that a batch waits for further requests. Clients that wait for their answers send the next requests together,
# just after a batch: without this time the first of them would be a batch of its own.
GATHER_SECONDS = 0.005
# The threads in which models work.
THREAD_NAME = "batcher"
_END_SECONDS = 0.5  # in which an idle thread ends

Item = TypeVar("Item")
Output = TypeVar("Output")


class Answer(NamedTuple, Generic[Output]):
    """Outputs of one request's items, and the seconds that its batch took."""

    outputs: list[Output]
    seconds: float


class _Request(NamedTuple, Generic[Item, Output]):
    items: Sequence[Item]
    answer: asyncio.Future[Answer[Output]]


class Batcher(Generic[Item, Output]):
    """A queue in front of one model, which has one thread. `run` answers requests until it is cancelled."""

    def __init__(self, write: Callable[[Sequence[Item]], list[Output]]) -> None:
        self._write = write
        self._waiting: asyncio.Queue[_Request[Item, Output]] = asyncio.Queue(MAX_WAITING)
        # A thread of its own: asyncio's are few, and its end would wait for them.
        self._thread = ThreadPoolExecutor(1, THREAD_NAME)
        self.batches = 0

    async def ask(self, items: Sequence[Item], timeout: float) -> Answer[Output]:
        """The answer. Raises RefusedError if too many requests wait, TimeoutError if the answer takes too long."""
        return await asyncio.wait_for(self.submit(items), timeout)

    def submit(self, items: Sequence[Item]) -> asyncio.Future[Answer[Output]]:
        """A future of the answer. Raises RefusedError if too many requests wait."""
        request = _Request(items, asyncio.get_running_loop().create_future())
        try:
            self._waiting.put_nowait(request)
        except asyncio.QueueFull as error:
            raise RefusedError(503, "too many requests are waiting") from error
        return request.answer

    async def run(self) -> None:
        concurrent = False
        try:
            while True:
                requests = [await self._waiting.get()]
                self._gather(requests)
                # A single client never waits.
                if concurrent or len(requests) > 1:
                    await asyncio.sleep(GATHER_SECONDS)
                    self._gather(requests)
                concurrent = len(requests) > 1
                # Requests that were cancelled need no answer.
                await self._answer([request for request in requests if not request.answer.done()])
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _gather(self, requests: list[_Request[Item, Output]]) -> None:
        """Add the waiting requests, up to a batch."""
        while not self._waiting.empty() and sum(len(request.items) for request in requests) < BATCH_SIZE:
            requests.append(self._waiting.get_nowait())

    async def _answer(self, requests: Sequence[_Request[Item, Output]]) -> None:
        items = [item for request in requests for item in request.items]
        if not items:
            return
        self.batches += 1
        start = time.perf_counter()
        try:
            outputs = await asyncio.get_running_loop().run_in_executor(self._thread, self._write, items)
        except Exception as error:  # only this batch fails; later ones are answered
            for request in requests:
                if not request.answer.done():
                    request.answer.set_exception(error)
            return
        seconds, offset = time.perf_counter() - start, 0
        for request in requests:
            if not request.answer.done():
                request.answer.set_result(Answer(outputs[offset : offset + len(request.items)], seconds))
            offset += len(request.items)


def is_working() -> bool:
    """Whether a model still works after all batchers were cancelled."""
    threads = [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]
    for thread in threads:
        thread.join(_END_SECONDS)
    return any(thread.is_alive() for thread in threads)
