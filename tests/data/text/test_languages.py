"""Languages are sampled in proportion to p^alpha."""

from __future__ import annotations

import numpy as np
import pytest

from subgraft.data.text.languages import allotted, balanced, repeated, repeated_places, shares

SIZES = {"en": 70_000, "fr": 20_000, "sw": 9_000, "gd": 676}


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_shares_are_powers_of_shares(alpha: float) -> None:
    whole = sum(SIZES.values())
    expected = np.array([(size / whole) ** alpha for size in SIZES.values()])
    assert np.allclose(list(shares(SIZES, alpha).values()), expected / expected.sum(), atol=1e-12)


def test_all_and_none() -> None:
    assert set(shares(SIZES, 0.0).values()) == {0.25}
    assert shares(SIZES, 1.0)["en"] == pytest.approx(70_000 / sum(SIZES.values()))
    assert shares({"en": 5, "fr": 0}, 0.0) == {"en": 1.0, "fr": 0.0}
    with pytest.raises(ValueError, match="no language"):
        shares({"en": 0}, 1.0)


@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_parts_of_a_total_add_up(alpha: float) -> None:
    result = allotted(SIZES, alpha, 10_001)
    assert sum(result.values()) == 10_001
    exact = shares(SIZES, alpha)
    assert all(abs(result[name] - exact[name] * 10_001) < 1 for name in SIZES)


def test_a_vocabulary_s_text_holds_each_language_as_often_as_it_counts() -> None:
    sizes = {"en": 90, "gd": 10}
    texts = {
        name: lambda name=name, size=size: iter(f"{name} {at}" for at in range(size)) for name, size in sizes.items()
    }
    result = list(balanced(texts, sizes, 0.0, 60, seed=4))
    english, gaelic = [line for line in result if line[0] == "e"], [line for line in result if line[0] == "g"]
    assert (len(english), len(gaelic)) == (30, 30)
    assert len(set(english)) == 30
    assert all(gaelic.count(line) == 3 for line in set(gaelic))
    assert [int(line.split()[1]) for line in english] == sorted(int(line.split()[1]) for line in english)
    assert result == list(balanced(texts, sizes, 0.0, 60, seed=4)) != list(balanced(texts, sizes, 0.0, 60, seed=5))


def test_where_small_languages_are_oversampled_no_text_is_lost() -> None:
    sizes = {"en": 1000, "de": 100, "gla": 10}
    result = repeated(sizes, 0.7)
    whole, wanted = sum(result.values()), shares(sizes, 0.7)
    assert result["en"] == 1000 and all(result[code] >= size for code, size in sizes.items())
    assert all(result[code] / whole == pytest.approx(wanted[code], abs=1e-3) for code in sizes)
    assert repeated(sizes, 1.0) == sizes
    assert repeated_places(4, 10).tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 2]
