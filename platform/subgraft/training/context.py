"""The interface between a running stage and its surroundings: work directory, caches, progress, metrics, warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from subgraft.config.runtime import Runtime

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Anything canonical JSON can hold; numbers are finite."""


class Context(Protocol):
    """The surroundings of a running stage. Of several workers, only rank 0 reports progress and metrics."""

    @property
    def work(self) -> Path:
        """A directory for this step that survives kills: its checkpoints."""

    @property
    def cache(self) -> Path | None:
        """The cache of encoded text, shared by all steps and workers of a home; None disables it."""

    @property
    def measured(self) -> Path | None:
        """The cache of speed measurements, shared by all steps of a home; None disables it."""

    @property
    def command(self) -> str:
        """The command line of the run, without secrets; empty if it was started in Python."""

    @property
    def runtime(self) -> Runtime:
        """Workers, GPUs, ZeRO stage: how the step runs, never its result."""

    def progress(self, done: int, total: int, what: str, now: str = "") -> None:
        """Report that `done` of `total` `what` (steps, sentences, ...) are finished; total 0 means unknown.

        `now` describes the current state, such as a training's losses.
        """

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Record measured values at a training step."""

    def warn(self, line: str) -> None:
        """Report, in one line, something damaged that the stage can continue without."""

    def note(self, line: str) -> None:
        """Report, in one line, a choice that was left to the stage."""
