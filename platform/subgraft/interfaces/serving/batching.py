"""Batches the requests that arrive while the model is busy, and shortly after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

# Items in one batch, and requests that may wait; more are refused.
BATCH, WAITING = 64, 256
# Seconds that a batch waits for further requests. Clients that wait for their answers send the next requests together,
# just after a batch: without this time the first of them would be a batch of its own.
GATHERING = 0.005

Item = TypeVar("Item")
Output = TypeVar("Output")


class Answer(NamedTuple, Generic[Output]):
    """Outputs of one request's items, and the seconds that its batch took."""

    outputs: list[Output]
    seconds: float


class BusyError(Exception):
    """Too many requests are waiting."""


class _Request(NamedTuple, Generic[Item, Output]):
    items: Sequence[Item]
    answer: asyncio.Future[Answer[Output]]


class Batcher(Generic[Item, Output]):
    """A queue in front of one model, which one thread uses at a time. `run` answers requests until it is cancelled."""

    def __init__(self, write: Callable[[Sequence[Item]], list[Output]]) -> None:
        self._write = write
        self._waiting: asyncio.Queue[_Request[Item, Output]] = asyncio.Queue(WAITING)
        self.batches = 0

    async def ask(self, items: Sequence[Item], timeout: float) -> Answer[Output]:
        """Raises BusyError where too many wait, TimeoutError where the answer takes too long."""
        return await asyncio.wait_for(self.submit(items), timeout)

    def submit(self, items: Sequence[Item]) -> asyncio.Future[Answer[Output]]:
        """The answer, once it is there. Raises BusyError where too many wait."""
        request = _Request(items, asyncio.get_running_loop().create_future())
        try:
            self._waiting.put_nowait(request)
        except asyncio.QueueFull as error:
            raise BusyError from error
        return request.answer

    async def run(self) -> None:
        concurrent = False
        while True:
            requests = [await self._waiting.get()]
            self._gather(requests)
            # A single client never waits.
            if concurrent or len(requests) > 1:
                await asyncio.sleep(GATHERING)
                self._gather(requests)
            concurrent = len(requests) > 1
            # Requests that were given up need no answer.
            await self._answer([one for one in requests if not one.answer.done()])

    def _gather(self, requests: list[_Request[Item, Output]]) -> None:
        """Add the waiting requests, up to a batch."""
        while not self._waiting.empty() and sum(len(one.items) for one in requests) < BATCH:
            requests.append(self._waiting.get_nowait())

    async def _answer(self, requests: Sequence[_Request[Item, Output]]) -> None:
        items = [item for one in requests for item in one.items]
        if not items:
            return
        self.batches += 1
        began = time.perf_counter()
        try:
            written = await asyncio.to_thread(self._write, items)
        except Exception as error:  # of the model: this batch's, and no reason to answer none after it
            for one in requests:
                if not one.answer.done():
                    one.answer.set_exception(error)
            return
        seconds, place = time.perf_counter() - began, 0
        for one in requests:
            if not one.answer.done():
                one.answer.set_result(Answer(written[place : place + len(one.items)], seconds))
            place += len(one.items)
