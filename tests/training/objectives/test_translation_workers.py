"""Two workers train as one on several directions, documents, context, back-translated text, and text without pairs."""

from __future__ import annotations

from pathlib import Path

import pytest
from safetensors.torch import load_file

from engine_runs import STEPS, assert_weights_agree, run_workers
from translation_tasks import TASKS


@pytest.mark.slow
@pytest.mark.parametrize("kind", TASKS)
def test_two_workers_train_as_one(kind: str, tmp_path: Path) -> None:
    one, two = (run_workers("plain", n, tmp_path / str(n), task=f"translation-{kind}") for n in (1, 2))
    assert set(one) == set(range(1, STEPS + 1)) and two == pytest.approx(one, rel=1e-4)
    if kind == "context":
        return  # Gradients of a toy's context are as small as rounding, which Adam makes as large as any.
    weights, expected = (load_file(tmp_path / str(n) / "module.safetensors") for n in (2, 1))
    assert_weights_agree(weights, expected, rtol=1e-3, atol=2e-4)
