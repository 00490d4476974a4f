"""What is read from tags, those of earlier versions among them."""

from __future__ import annotations

import pytest

from subgraft.orchestration.tracking.tags import system_of


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ({"system": "mean", "seed": "1"}, "mean"),
        ({"row": "mean", "seed": "1"}, "mean"),
        ({"system": "mean", "row": "avg"}, "mean"),
        ({"seed": "1"}, None),
    ],
)
def test_a_system_was_called_a_row(tags: dict[str, str], expected: str | None) -> None:
    assert system_of(tags) == expected
