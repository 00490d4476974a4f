"""The recommendation follows the nearest priors of each shift, alike trained or frozen."""

from __future__ import annotations

import pytest

from subgraft.experiments.fit.priors import MARGIN, Prior, recommend

LAWS = Prior("laws", 500, False, {"old": 20.0, "mean": 21.0, "vocadt": 24.0})
MORE = Prior("laws", 8000, False, {"old": 30.0, "mean": 33.0, "vocadt": 33.0})
OTHER = Prior("manuals", 2000, False, {"old": 10.0, "mean": 12.0, "vocadt": 13.0, "network": 40.0})
FROZEN = Prior("laws", 2000, True, {"old": 20.0, "mean": 18.0, "vocadt": 23.0})


def test_the_nearest_number_of_pairs_of_each_shift_counts() -> None:
    few = recommend((LAWS, MORE, OTHER, FROZEN), 700)
    assert few.priors == (LAWS, OTHER)
    # vocadt: 4 and 3 over the old one; mean: 1 and 2. `network` was not measured on laws.
    assert few.system == "vocadt" and few.gain == pytest.approx(3.5)
    many = recommend((LAWS, MORE, OTHER, FROZEN), 10_000)
    assert many.priors == (MORE, OTHER) and many.system == "mean" and many.gain == pytest.approx(2.5)


def test_frozen_embeddings_have_their_own_priors() -> None:
    assert recommend((LAWS, FROZEN), 700, frozen=True).priors == (FROZEN,)
    assert recommend((LAWS, FROZEN), 700, frozen=True).system == "vocadt"


def test_the_default_stays_unless_another_is_ahead_by_more_than_the_margin() -> None:
    near = Prior("laws", 500, False, {"old": 20.0, "mean": 21.0, "vocadt": 21.0 + MARGIN})
    assert recommend((near,), 500).system == "mean"
    worse = Prior("laws", 500, False, {"old": 23.0, "mean": 21.0})
    assert recommend((worse,), 500).system == "old"
