"""The choice of sizes: its bound against every choice there is, and totals that are kept."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.contrib.allocation.choice import Candidate, NoRoomError, choose, concave_hull

SIZES = (4, 8, 12, 16, 20, 24)


def language(rng: np.random.Generator, *, nested: bool, rising: bool) -> Candidate:
    """Pieces out of sixty that languages share; values that grow, ever more slowly but where `rising` says so."""
    order = rng.permutation(60)
    pieces = [order[:size] if nested else rng.choice(order[:30], size, replace=False) for size in SIZES]
    gains = np.sort(rng.random(len(SIZES)))[::-1]
    if rising:
        gains[[1, 3]] = gains[[3, 1]]
    return Candidate(SIZES, np.cumsum(gains).tolist(), [[str(piece) for piece in each] for each in pieces])


def best(candidates: dict[str, Candidate], total: int) -> float | None:
    """Of all choices that are allowed."""
    result = None
    for steps in product(range(len(SIZES)), repeat=len(candidates)):
        chosen = list(zip(candidates.values(), steps, strict=True))
        if len({piece for each, step in chosen for piece in each.pieces[step]}) <= total:
            result = max(result or -np.inf, sum(each.values[step] for each, step in chosen))
    return result


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_the_bound_is_never_below_what_can_be_reached(seed: int, nested: bool) -> None:
    rng = np.random.default_rng(seed)
    candidates = {name: language(rng, nested=nested, rising=name == "b") for name in "abc"}
    for total in (20, 28, 36, 48):
        reachable = best(candidates, total)
        try:
            result = choose(candidates, total)
        except UserError:
            assert reachable is None
            continue
        assert reachable is not None and result.value <= reachable + 1e-9 <= result.bound + 2e-9
        chosen = {piece for name, size in result.sizes.items() for piece in candidates[name].pieces[SIZES.index(size)]}
        assert len(chosen) == result.union <= total


def test_with_room_for_everything_every_language_has_its_largest() -> None:
    rng = np.random.default_rng(3)
    candidates = {name: language(rng, nested=True, rising=False) for name in "ab"}
    result = choose(candidates, 60)
    assert set(result.sizes.values()) == {24} and result.value == pytest.approx(result.bound)


def test_what_languages_share_is_paid_once() -> None:
    """The second language has the pieces of the first: there is room for both at their largest."""
    one = Candidate((2, 4), (1.0, 2.0), ("ab", "abcd"))
    assert choose({"a": one, "b": one}, 4).sizes == {"a": 4, "b": 4}
    apart = Candidate((2, 4), (1.0, 1.5), ("uv", "uvwx"))
    assert choose({"a": one, "b": apart}, 6).sizes == {"a": 4, "b": 2}


def test_a_total_below_the_smallest_vocabularies_is_refused_with_what_they_need() -> None:
    one, two = Candidate((2, 4), (1.0, 2.0), ("ab", "abcd")), Candidate((2, 4), (1.0, 1.5), ("av", "avwx"))
    with pytest.raises(UserError, match="the smallest vocabularies of 2 languages have 3 pieces together, more than"):
        choose({"a": one, "b": two}, 2)


def test_a_total_that_some_vocabularies_fit_is_never_refused() -> None:
    """Of vocabularies that are not nested, those that share most are not the cheapest of each language by itself."""
    a, b = Candidate((2, 3), (1.0, 2.0), ("vx", "uwx")), Candidate((2, 3), (1.0, 2.0), ("vy", "uwx"))
    result = choose({"a": a, "b": b}, 3)
    assert result.union == 3 and result.value <= 4.0 <= result.bound
    with pytest.raises(NoRoomError, match="have 3 pieces together, more than the 2 that") as refused:
        choose({"a": a, "b": b}, 2)
    assert refused.value.needed == 3


def test_a_hull_pools_increments_that_rise() -> None:
    """The step to the second point is flatter than the one after it: together they are one segment."""
    hull = concave_hull([0, 1, 2, 3, 4], [0.0, 1.0, 3.0, 4.0, 4.0])
    assert hull.points == (0, 2, 3) and hull.slopes.tolist() == [1.5, 1.0]
