"""What a stage is given besides its recipe and inputs, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeAlias

from subgraft.config.runtime import Runtime

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""Anything canonical JSON can hold; numbers are finite."""


class Context(Protocol):
    """The world around a running stage. Under several workers only rank 0's progress and metrics are kept."""

    @property
    def work(self) -> Path:
        """A directory of this step alone that survives kills: its checkpoints."""

    @property
    def cache(self) -> Path | None:
        """Where encoded text is kept, for all steps and workers of a home; None: nowhere."""

    @property
    def measured(self) -> Path | None:
        """Where it is kept what was measured of machines, for all steps of a home; None: nowhere."""

    @property
    def runtime(self) -> Runtime:
        """Workers, GPUs, ZeRO stage: how the step runs, never what it makes."""

    def progress(self, done: int, total: int, what: str, now: str = "") -> None:
        """Say that `done` of `total` `what` (steps, sentences, ...) are finished; total 0 means unknown.

        now: how it goes, as a training's losses.
        """

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Record measured values at a training step."""

    def warn(self, line: str) -> None:
        """Report, in one line, something damaged that the stage can do without."""
