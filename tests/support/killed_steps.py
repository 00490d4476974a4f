"""Steps that are killed on their way: in the middle of a training or of translations, in this process."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from small_experiments import perform_step
from subgraft.base.errors import OperationalError
from subgraft.config.runtime import Runtime
from subgraft.orchestration.store.events import StageContext
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training import chunked_translation
from toy_steps import record_of


def digests(store: Store, step: Step) -> dict[str, str]:
    """The digest of every file of an artifact that does not name a duration."""
    return {entry.path: entry.sha256 for entry in record_of(store, step).files if not entry.path.startswith("curve")}


def made_again_after_a_kill(step: Step, home: Path, at: int, patch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The digests of a step's artifact, and those of one that is made again in a copy of its store.

    The attempt dies after it has reported the update `at`, or written as many chunks of translations; a second one
    carries on.
    """
    place = home.with_name(f"{home.name}-{step.fingerprint[:8]}")
    shutil.copytree(home, place)
    store = Store(place)
    before = digests(store, step)
    shutil.rmtree(store.path(step))
    shutil.rmtree(store.work(step), ignore_errors=True)
    runtime = Runtime(checkpoint_seconds=1e-6, checkpoints_in_background=False)
    reported, written = StageContext.metrics, chunked_translation._save_chunk
    chunks = []

    def dying(context: StageContext, number: int, values: Mapping[str, float]) -> None:
        reported(context, number, values)
        if number == at:
            raise RuntimeError("killed")

    def keep(*arguments: Any) -> None:
        written(*arguments)
        chunks.append(arguments)
        if len(chunks) == at:
            raise RuntimeError("killed")

    with patch.context() as during:
        during.setattr(StageContext, "metrics", dying)
        during.setattr(chunked_translation, "_save_chunk", keep)
        with pytest.raises(OperationalError):
            perform_step(step, place, runtime)
    assert store.find(step) is None
    left = {path: path.stat().st_mtime_ns for path in store.work(step).rglob("*.json")}
    perform_step(step, place, runtime)
    assert all(path.stat().st_mtime_ns == time for path, time in left.items() if path.exists() and chunks)
    return before, digests(store, step)
