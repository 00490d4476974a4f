"""Dev scores: bits and characters are of the same references."""

from __future__ import annotations

import numpy as np
import pytest

from new_vocabularies import LANGUAGES, upstream
from subgraft.base.errors import UserError
from subgraft.config.training import TrainingSettings
from subgraft.evaluation.metrics.bits_per_character import LEFT_OUT, bits_per_character
from subgraft.training.objectives.compute.translation import DevScores, reference_nats

SETTINGS = TrainingSettings(
    max_steps=1, batch_size=200, learning_rate=1e-3, warmup_steps=1, max_length=32, precision="fp32", dev_sentences=9
)
SHORT = [("thank you.", "dank."), ("friend.", "freund."), ("house and land.", "haus land.")]
LONG = ("thank you.", "dankbar freundlich " * 12)


def test_a_reference_that_is_too_long_counts_in_neither_bits_nor_characters() -> None:
    bundle = upstream("marian")
    assert len(bundle.decoder.encode(LONG[1])) > bundle.max_positions
    plain = DevScores(bundle, SHORT, LANGUAGES, SETTINGS)()
    scores = DevScores(bundle, [SHORT[0], LONG, *SHORT[1:]], LANGUAGES, SETTINGS)()
    assert scores["bits_per_character"] == pytest.approx(plain["bits_per_character"], rel=1e-5)
    assert scores[LEFT_OUT] == 1
    assert LEFT_OUT not in plain


def test_bits_are_of_every_token_over_all_characters() -> None:
    bundle = upstream("marian")
    nats = sum(float(np.sum(scores)) for _, scores in reference_nats(bundle, SHORT, LANGUAGES))
    expected = bits_per_character(nats, sum(len(target) for _, target in SHORT))
    scores = DevScores(bundle, SHORT, LANGUAGES, SETTINGS)()
    assert scores["bits_per_character"] == pytest.approx(expected, rel=1e-5)


def test_dev_references_that_are_all_too_long_are_refused() -> None:
    with pytest.raises(UserError, match="no dev reference fits into the 40 tokens"):
        DevScores(upstream("marian"), [LONG], LANGUAGES, SETTINGS)
