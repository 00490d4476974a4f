"""What a configuration of an allocation may say, and what of it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.loading import load
from subgraft.contrib.allocation.settings import Allocation

TEXTS = """\
name: three
texts:
  - texts:
      en: {files: {train: [en.txt]}}
      de: {folder: both, limit: {train: 9, dev: 3}}
  - plain: {folder: more, languages: {nl: dutch}, held_out: {test: 10}}
totals: [500]
"""


def read(place: Path, text: str = TEXTS, *changes: str) -> Allocation:
    (place / "config.yaml").write_text(text)
    return load(place / "config.yaml", Allocation, changes)


def test_every_language_has_a_corpus_of_its_own_with_its_own_limit(tmp_path: Path) -> None:
    sources = read(tmp_path, TEXTS, "limits={de: 5, nl: 7}").sources
    assert list(sources) == ["en", "de", "nl"]
    assert sources["de"].limit == {"train": 5, "dev": 3} and sources["en"].limit == {}
    assert sources["nl"].plain is not None and sources["nl"].plain.names == {"nl": "dutch"}


def test_sizes_go_by_steps_up_to_the_largest_which_is_one_of_them(tmp_path: Path) -> None:
    assert read(tmp_path).curves.grid == tuple(range(1000, 10_001, 1000))
    assert read(tmp_path, TEXTS, "curves={step: 400, largest: 1000}").curves.grid == (400, 800, 1000)
    assert read(tmp_path, TEXTS, "curves={sizes: [60, 70]}").curves.grid == (60, 70)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("texts=[{texts: {en: {folder: a}}}, {plain: {folder: b, languages: [en]}}]", "name the language 'en' twice"),
        ("texts=[{files: {train: [en.txt]}}]", "files names no languages: put it into texts"),
        ("curves={sizes: [200, 100]}", "sizes must increase, not 200, 100"),
        ("curves={step: 500, largest: 100}", "largest 100 is below one step of 500"),
        ("curves={kind: bpe, exact: true}", "curves of bpe are always exact"),
        ("user_defined_symbols=[<br>]", r"no user_defined_symbols: add them by `subgraft vocab extend --words`"),
        ("limits={xx: 5}", "limits name the language 'xx', which no text has"),
        ("totals=[500, 500]", "totals must be distinct"),
    ],
)
def test_what_does_not_go_together_is_refused(change: str, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        read(tmp_path, TEXTS, change)


def test_a_language_that_is_written_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    twice = TEXTS.replace("      de:", "      en: {folder: c}\n      de:")
    with pytest.raises(UserError, match=r"config.yaml:5: .*en"):
        read(tmp_path, twice)


def test_the_shipped_configuration_is_of_fifty_languages_in_classes() -> None:
    shipped = load(Path(__file__).parents[3] / "configs" / "vocap.yaml", Allocation)
    assert len(shipped.sources) == 50 and shipped.totals == (60_000, 120_000)
    classes = {500, 2000} & set(shipped.limits.values())
    assert classes == {500, 2000} and shipped.language_exponent == shipped.capacity_exponent == 0.7
