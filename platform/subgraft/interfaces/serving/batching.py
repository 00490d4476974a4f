"""Batches the requests that arrive while the model is busy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

# Texts in one batch, and requests that may wait; more are refused.
BATCH, WAITING = 64, 256


class Answer(NamedTuple):
    """Outputs of one request's texts, and the seconds that its batch took."""

    texts: list[str]
    seconds: float


class BusyError(Exception):
    """Too many requests are waiting."""


class _Request(NamedTuple):
    texts: Sequence[str]
    answer: asyncio.Future[Answer]


class Batcher:
    """A queue in front of one model, which one thread uses at a time. `run` answers requests until it is cancelled."""

    def __init__(self, write: Callable[[Sequence[str]], list[str]]) -> None:
        self._write = write
        self._waiting: asyncio.Queue[_Request] = asyncio.Queue(WAITING)
        self.batches = 0

    async def ask(self, texts: Sequence[str], timeout: float) -> Answer:
        """Raises BusyError where too many wait, TimeoutError where the answer takes too long."""
        request = _Request(texts, asyncio.get_running_loop().create_future())
        try:
            self._waiting.put_nowait(request)
        except asyncio.QueueFull as error:
            raise BusyError from error
        return await asyncio.wait_for(request.answer, timeout)

    async def run(self) -> None:
        while True:
            requests = [await self._waiting.get()]
            while not self._waiting.empty() and sum(len(one.texts) for one in requests) < BATCH:
                requests.append(self._waiting.get_nowait())
            # Requests that were given up need no answer.
            await self._answer([one for one in requests if not one.answer.done()])

    async def _answer(self, requests: Sequence[_Request]) -> None:
        texts = [text for one in requests for text in one.texts]
        if not texts:
            return
        self.batches += 1
        began = time.perf_counter()
        try:
            written = await asyncio.to_thread(self._write, texts)
        except Exception as error:  # of the model: this batch's, and no reason to answer none after it
            for one in requests:
                if not one.answer.done():
                    one.answer.set_exception(error)
            return
        seconds, place = time.perf_counter() - began, 0
        for one in requests:
            if not one.answer.done():
                one.answer.set_result(Answer(written[place : place + len(one.texts)], seconds))
            place += len(one.texts)
