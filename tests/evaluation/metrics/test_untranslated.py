"""Outputs that are copies of their sources, against sacrebleu, and their language, identified in real and made text."""

from __future__ import annotations

import gzip
from collections import defaultdict
from pathlib import Path

import pytest
import sacrebleu

from subgraft.config.corpora import UNDETERMINED, Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.untranslated import LanguageIdentifier, copied_scores, copying
from toys import english, german, sentences

SOURCES = ["Tom lives in Boston today .", "Mary has a red car ."]
REFERENCES = ["Tom lebt heute in Boston .", "Mary hat ein rotes Auto ."]


def test_shared_names_score_without_a_translation() -> None:
    bleu = sacrebleu.corpus_bleu(SOURCES, [REFERENCES], force=True).score
    chrf = sacrebleu.corpus_chrf(SOURCES, [REFERENCES]).score
    assert copied_scores(SOURCES, REFERENCES, "de") == pytest.approx({"BLEU": bleu, "chrF": chrf})
    assert min(bleu, chrf) > 0


@pytest.mark.parametrize(
    ("outputs", "identical", "only"),
    [
        (REFERENCES, 0.0, False),
        (["tom lives in boston today . ", REFERENCES[1]], 0.5, True),
        (["Tom lives in Boston today !", "Mary has a red car !"], 0.0, True),
        (["", ""], 0.0, False),
    ],
)
def test_a_system_only_copies_if_its_outputs_are_its_sources_or_nearly(
    outputs: list[str], identical: float, only: bool
) -> None:
    measured = copying(SOURCES, outputs, "de")
    assert (measured.identical, measured.only_copies) == (identical, only)
    assert measured.against_sources == pytest.approx(sacrebleu.corpus_bleu(outputs, [SOURCES], force=True).score)


# Neighbours are among them: Romance, Scandinavian, Slavic and Bantu languages.
UDHR = "eng deu_1996 nld fra spa ita ron swe dan fin est hun tur pol ces slk slv rus ukr swh zul xho eus ind vie heb"


@pytest.mark.data
def test_held_out_articles_are_identified_in_languages_of_the_declaration_of_human_rights(mirror: Path) -> None:
    lines = defaultdict[str, list[str]](list)
    with gzip.open(mirror / "mono/udhr/lang-tab-line.txt.gz", "rt", encoding="utf-8") as file:
        for line in file:
            language, text = line.rstrip("\n").split("\t", 1)
            lines[language].append(text)
    chosen = [language for language in UDHR.split() if len(lines[language]) > 60]
    assert len(chosen) >= 20
    held_out = 20  # the last articles of each
    identify = LanguageIdentifier({language: lines[language][:-held_out] for language in chosen})
    right = {language: sum(named == language for named in identify(lines[language][-held_out:])) for language in chosen}
    assert sum(right.values()) / (held_out * len(chosen)) > 0.9, right
    assert min(right.values()) >= held_out / 2, right


def french(count: int, seed: int) -> list[str]:
    return sentences("merci ami voisin docteur jardin maison livre ville mot coeur", ["", "s", "eur"], count, seed)


def test_unequal_amounts_of_text_favour_no_language() -> None:
    identify = LanguageIdentifier({"en": english(600, 1), "de": german(600, 2), "fr": french(12, 3)})
    for language, lines in (("en", english(50, 4)), ("de", german(50, 5)), ("fr", french(50, 6))):
        assert identify.shares(lines).get(language, 0) > 0.9


def test_lines_without_a_letter_are_in_no_language() -> None:
    identify = LanguageIdentifier({"en": english(50, 1), "de": german(50, 2)})
    outputs = ["", "12 !", *german(1, 3), *english(1, 3)]
    assert identify(outputs) == [UNDETERMINED, UNDETERMINED, "de", "en"]
    assert identify.shares(outputs) == {UNDETERMINED: 0.5, "de": 0.25, "en": 0.25} and identify([]) == []


def corpus(place: Path, languages: str, *texts: list[str]) -> Corpus:
    place.mkdir()
    files = {split: tuple(str(place / f"{split}.{side}") for side in range(2)) for split in ("train", "dev", "test")}
    for paths in files.values():
        for path, lines in zip(paths, texts, strict=True):
            Path(path).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    source, target = languages.split("-")
    pair = Languages(source=source, target=target)
    built = CorpusSource.model_validate({"files": files})
    build(built, pair, Cleaning(drop_held_out=False), place / "corpus")
    return Corpus.open(place / "corpus")


def test_it_learns_from_the_training_text_of_every_language_of_the_corpora(tmp_path: Path) -> None:
    first = corpus(tmp_path / "first", "de-en", german(40, 1), english(40, 1))
    second = corpus(tmp_path / "second", "fr-en", french(40, 2), english(40, 3))
    identify = LanguageIdentifier.of([first, second])
    assert identify is not None and set(identify.languages) == {"de", "en", "fr"}
    assert identify([*german(1, 9), *english(1, 9), *french(1, 9)]) == ["de", "en", "fr"]
    one = corpus(tmp_path / "one", "en-en", english(40, 1), english(40, 2))
    assert LanguageIdentifier.of([one]) is None, "nothing else can be identified"
