"""The recommendation follows the nearest priors of each shift, alike trained or frozen."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.experiments.fit.priors import (
    EVIDENCE,
    EXTENDED_CHRF,
    MARGIN,
    PRIORS,
    TRIMMED_CHRF,
    Evidence,
    Prior,
    advice,
    evidence_for,
    recommend,
)

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


def test_the_evidence_is_that_of_the_results(repository: Path) -> None:
    results = (repository / "docs" / "results.md").read_text(encoding="utf-8").replace("−", "-")
    for each in EVIDENCE:
        assert f"## {each.section}" in results
        low, high = (f"{bound:.2f}" for bound in each.bleu[1:])
        assert f"{each.bleu[0]:+.2f} [{low}, {high}]" in results
        assert f"{each.p:g}" in results and f"{each.chrf:+.1f}" in results
    section = results.partition("### Replaced, extended or trimmed")[2].partition("###")[0]
    assert f"{EXTENDED_CHRF:+.1f} [" in section and f"{TRIMMED_CHRF:+.1f} [" in section


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: f"{prior.shift}, {prior.pairs}, {prior.frozen}")
def test_priors_are_those_of_the_pages(prior: Prior, repository: Path) -> None:
    page = (repository / "docs" / prior.page).read_text(encoding="utf-8")
    assert f"{prior.pairs:,} pairs" in page
    for system, chrf in prior.chrf.items():
        rows = [line for line in page.splitlines() if line.startswith(f"| {system}")]
        assert any(f"{chrf:.1f}" in row for row in rows), (system, chrf)


def test_the_advice_names_the_nearest_amounts_of_text() -> None:
    assert evidence_for(300).pairs == evidence_for(3_000).pairs == 2_000
    assert evidence_for(12_000).pairs == evidence_for(10**6).pairs == 15_000
    assert "brought +3.11 BLEU [+1.31, +4.94] (p = 0.031)" in advice(1_000, continues=False)
    uncertain = Evidence(2_000, (0.50, -0.09, 1.10), 0.145, 1.2, "Few pairs and a domain's text")
    assert "a difference that is not significant: +0.50 BLEU [-0.09, +1.10]" in uncertain.sentence
    assert "stay frozen, the old vocabulary was better" in advice(1_000, continues=False)
    assert "had better be extended" in advice(10_000, continues=True)
    assert "500 pairs of tatoeba → Python documentation" in advice(600, continues=False)
