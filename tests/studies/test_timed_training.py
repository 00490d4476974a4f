"""Trainings end at their marks, and evaluations take no time of them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from subgraft.config.training import PretrainSettings
from subgraft.training.objectives.compute.masked import MaskedSentences
from subgraft.training.objectives.compute.single_stack import StackLoss
from subgraft.training.objectives.masked import MaskedSettings
from timed_training import Point, Unit, trained
from toys import bert, cased_tokenizer, english, german

PAUSE = 0.5  # CPU seconds of an evaluation, more than all of the updates take


def _trained(marks: list[float], unit: Unit, epochs: int = 1000) -> tuple[list[Point], list[bool]]:
    data = MaskedSentences(english(40) + german(40), cased_tokenizer(), MaskedSettings(), 40, seed=1)
    settings = PretrainSettings(epochs=epochs, batch_size=300, max_length=40, learning_rate=1e-3, warmup_steps=5)
    module, modes = StackLoss(bert()), list[bool]()

    def evaluate() -> float:
        modes.append(module.training)
        until = time.process_time() + PAUSE
        while time.process_time() < until:
            np.sort(np.arange(1000))
        return float(len(modes))

    return trained(module, data, settings, seed=1, evaluate=evaluate, marks=marks, unit=unit), modes


def test_by_updates() -> None:
    points, modes = _trained([0, 4, 9], "updates")
    assert [point.updates for point in points] == [0, 4, 9] and [point.value for point in points] == [1.0, 2.0, 3.0]
    assert not any(modes)
    assert points[0].seconds < points[1].seconds < points[2].seconds < 2 * PAUSE


def test_by_seconds() -> None:
    points, _ = _trained([0.1, 0.2], "seconds")
    assert 0.1 <= points[0].seconds < points[1].seconds and 0.2 <= points[1].seconds < 0.2 + PAUSE
    assert 0 < points[0].updates < points[1].updates


def test_a_training_that_ends_too_early_is_an_error() -> None:
    with pytest.raises(ValueError, match="ended before its last mark"):
        _trained([10**6], "updates", epochs=1)
