from __future__ import annotations

import pytest
from pydantic import ValidationError

from subgraft.config.initialisers import ResegmentationSettings


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"match": "downstream", "merge_rate": 0.2, "max_merge": 3}, "leave out merge_rate, max_merge"),
        ({"match_rate": 0.5}, "match_rate applies to match: downstream"),
    ],
)
def test_settings_of_two_ways_to_simulate_are_refused(settings: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        ResegmentationSettings.model_validate(settings)
