"""Settings of initialisers and of vocabularies: what goes together."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.vocabularies import JointVocabularySettings, VocabularySettings


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


def test_vocabularies_can_spell_everything_unless_configured_otherwise() -> None:
    assert VocabularySettings() == VocabularySettings(kind="unigram", character_coverage=1.0, byte_fallback=True)
    assert VocabularySettings(kind="bpe").byte_fallback
    assert JointVocabularySettings().byte_fallback
    assert not VocabularySettings(kind="wordpiece").byte_fallback
    assert not VocabularySettings(byte_fallback=False).byte_fallback


def test_a_wordpiece_vocabulary_has_no_bytes() -> None:
    with pytest.raises(ValidationError, match="not to wordpiece"):
        VocabularySettings(kind="wordpiece", byte_fallback=True)


@pytest.mark.parametrize("symbol", ["", " ", " <br>", "two\nlines"])
def test_symbols_have_no_white_space_around_them(symbol: str) -> None:
    assert VocabularySettings(user_defined_symbols=("<br>", "New York")).user_defined_symbols == ("<br>", "New York")
    with pytest.raises(ValidationError, match=r"user_defined_symbols\.1"):
        VocabularySettings(user_defined_symbols=("<br>", symbol))
