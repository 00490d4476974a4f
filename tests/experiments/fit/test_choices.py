"""What a fit chooses by the amount of text."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.experiments.fit.choices import SIZES, TRAININGS, choose, choose_for_labels, vocabulary_size
from subgraft.experiments.fit.priors import (
    EXTENDED_CHRF,
    MARGIN,
    PRIORS,
    TRIMMED_CHRF,
    Prior,
    Recommendation,
    Shift,
    advice,
    initialiser_for,
    recommend,
)


def test_more_text_gets_more_steps_and_larger_vocabularies() -> None:
    steps = [choose(pairs, 7_500_000, quick=False).steps for pairs in (300, 2_000, 15_000, 50_000, 10**7)]
    assert steps == sorted(set(steps))
    sizes = [vocabulary_size(characters) for characters in (10_000, 100_000, 400_000, 2_000_000, 10**9)]
    assert sizes == sorted(set(sizes))


def test_the_tables_end_with_what_has_no_bound() -> None:
    assert TRAININGS[-1].pairs == SIZES[-1].characters == float("inf")


def test_embeddings_learn_at_four_times_the_rate_and_the_old_vocabulary_at_twice() -> None:
    choice = choose(15_000, 7_500_000, quick=False)
    assert choice.embedding_learning_rate == pytest.approx(4 * choice.learning_rate)
    assert choice.old_rate == pytest.approx(2 * choice.learning_rate)
    assert choose(15_000, 300_000_000, quick=False).learning_rate < choice.learning_rate


def test_quick_is_less_of_everything() -> None:
    quick, whole = choose(500, 1, quick=True), choose(500, 1, quick=False)
    assert len(quick.seeds) == 1 and len(whole.seeds) == 3, "three make a difference significant"
    assert quick.steps < whole.steps and quick.sentences and whole.sentences is None
    assert quick.evaluate_at[-1] == quick.steps and len(quick.evaluate_at) > 1


def test_embeddings_that_learn_from_pairs_are_for_tasks_with_pairs() -> None:
    assert choose(2_000, 1, tokens_ratio=0.6, quick=False).initialiser == "vocadt"
    assert choose(2_000, 1, tokens_ratio=0.6, excluded={"vocadt"}, quick=False).initialiser == "mean"
    assert choose_for_labels(2_000, 1, quick=False).initialiser == "mean"


LAWS = Prior(Shift("laws", 0.6), 500, {"old": 20.0, "mean": 21.0, "vocadt": 24.0})
MORE = Prior(Shift("laws", 0.6), 8000, {"old": 30.0, "mean": 33.0, "vocadt": 33.0})
OTHER = Prior(Shift("manuals", 0.6), 2000, {"old": 10.0, "mean": 12.0, "vocadt": 13.0, "network": 40.0})
FROZEN = Prior(Shift("laws", 0.6), 2000, {"old": 20.0, "mean": 18.0, "vocadt": 23.0}, frozen=True)


def test_the_nearest_number_of_pairs_of_each_shift_counts() -> None:
    few = recommend((LAWS, MORE, OTHER, FROZEN), 700)
    assert few.priors == (LAWS, OTHER)
    # vocadt: 4 and 3 over the old one; mean: 1 and 2. `network` was not measured on laws.
    assert few.system == "vocadt" and few.gain == pytest.approx(3.5)
    # On two of three shifts it is enough, compared with `mean` on these two.
    without = Prior(Shift("news", 0.6), 500, {"old": 20.0, "mean": 29.0})
    most = recommend((LAWS, OTHER, without), 700)
    assert most.system == "vocadt" and most.gain == pytest.approx(3.5)
    many = recommend((LAWS, MORE, OTHER, FROZEN), 10_000)
    assert many.priors == (MORE, OTHER) and many.system == "mean" and many.gain == pytest.approx(2.5)


def test_frozen_embeddings_have_their_own_priors() -> None:
    assert recommend((LAWS, FROZEN), 700, frozen=True).priors == (FROZEN,)
    assert recommend((LAWS, FROZEN), 700, frozen=True).system == "vocadt"


def test_the_default_stays_unless_another_is_ahead_by_more_than_the_margin() -> None:
    near = Prior(Shift("laws", 0.6), 500, {"old": 20.0, "mean": 21.0, "vocadt": 21.0 + MARGIN})
    assert recommend((near,), 500).system == "mean"
    worse = Prior(Shift("laws", 0.6), 500, {"old": 23.0, "mean": 21.0})
    assert recommend((worse,), 500).system == "old"


def test_only_shifts_with_a_gap_like_that_of_the_text_count() -> None:
    small = Prior(Shift("none", 0.95), 2000, {"old": 50.0, "mean": 40.0})
    assert recommend((LAWS, small), 2000, tokens_ratio=0.55).system == "vocadt"
    assert recommend((LAWS, small), 2000, tokens_ratio=1.0) == Recommendation("old", 0.0, (small,))
    assert recommend((LAWS, small), 2000).priors == (LAWS, small)


def test_figures_of_extended_and_trimmed_vocabularies_are_those_of_the_results(repository: Path) -> None:
    results = (repository / "docs" / "results.md").read_text(encoding="utf-8").replace("−", "-")
    section = results.partition("### Replaced, extended or trimmed")[2].partition("###")[0]
    assert f"{EXTENDED_CHRF:+.1f} [" in section and f"{TRIMMED_CHRF:+.1f} [" in section


@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: f"{prior.shift}, {prior.pairs}, {prior.frozen}")
def test_priors_are_those_of_the_pages(prior: Prior, repository: Path) -> None:
    pages = [repository / "docs" / "measurements" / name for name in ("translator.md", "starts-on-a-translator.md")]
    page = "".join(each.read_text(encoding="utf-8") for each in pages)
    assert f"{prior.pairs:,} pairs" in page
    for system, chrf in prior.chrf.items():
        rows = [line for line in page.splitlines() if line.startswith(f"| {system}")]
        assert any(f"{chrf:.1f}" in row for row in rows), (system, chrf)
    if prior.bleu:
        mean, low, high, p = prior.bleu
        assert f"{mean:+.2f} [{low:.2f}, {high:.2f}], {p:.3f}" in page


def test_the_advice_names_what_it_follows_from() -> None:
    few = advice(1_500, 0.6, continues=False)
    assert "2,000 pairs of tatoeba → Python documentation, French to English: `mean` BLEU +3.11 [1.31, 4.94]" in few
    assert "stay frozen, the old vocabulary was better" in few
    assert "15,000 pairs of tatoeba → Python documentation, French to English" in advice(12_000, 0.6, continues=False)
    assert "Extend the vocabulary by few subwords that are frequent, if fewer tokens" in advice(
        10_000, 0.6, continues=True
    )
    assert "500 pairs of tatoeba → Python documentation" in advice(600, 0.6, continues=False)
    assert "are trained, the old vocabulary was better (2,000 pairs of tatoeba → tatoeba" in advice(
        2_000, 0.95, continues=False
    )


def test_a_new_vocabulary_has_an_initialiser_also_where_the_old_one_was_better() -> None:
    assert initialiser_for(2_000, 0.95) == "mean"
    assert initialiser_for(2_000, 0.6) == "vocadt"


def test_what_cannot_be_used_is_not_recommended() -> None:
    assert initialiser_for(2_000, 0.6, excluded={"vocadt"}) == "mean"
    assert recommend((LAWS, OTHER), 700, excluded={"vocadt"}).system == "mean"
