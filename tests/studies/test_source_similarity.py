"""Systems are scored apart where a source is half a translation, against sacrebleu."""

from __future__ import annotations

import pytest
import sacrebleu

from source_similarity import COPY, Outputs, parts, table

SOURCES = ["print(x) affiche x", "Le chat dort.", "def f(x): pass", "Il pleut ici."]
REFERENCES = ["print(x) shows x", "The cat sleeps.", "def f(x): pass", "It is raining here."]
SYSTEMS = {"one": [["print(x) shows it", "The cat.", "def f", "It rains."], ["a", "The cat sleeps.", "b", "c"]]}


def test_sentences_are_split_by_the_chrf_of_their_sources() -> None:
    results = parts(Outputs(SOURCES, REFERENCES, SYSTEMS, "en"), [30.0])
    whole, unlike, alike = (results[place : place + 2] for place in (0, 2, 4))
    assert [each.sentences for each in results] == [4, 4, 2, 2, 2, 2]
    assert [each.system for each in whole] == [COPY, "one"]
    prose, code = [[side[place] for place in (1, 3)] for side in (SOURCES, REFERENCES)], [0, 2]
    assert unlike[0].chrf == pytest.approx(sacrebleu.corpus_chrf(prose[0], [prose[1]]).score)
    by_seed = [
        sacrebleu.corpus_chrf([seed[place] for place in code], [[REFERENCES[place] for place in code]]).score
        for seed in SYSTEMS["one"]
    ]
    assert alike[1].chrf == pytest.approx(sum(by_seed) / 2)
    assert whole[0].bleu == pytest.approx(sacrebleu.corpus_bleu(SOURCES, [REFERENCES], force=True).score)


def test_the_table_has_a_column_for_each_part() -> None:
    drawn = table(parts(Outputs(SOURCES, REFERENCES, SYSTEMS, "en"), [30.0]))
    assert drawn.startswith("| | all: 4 sentences | less than 30: 2 sentences | 30 or more: 2 sentences |")
    assert [line.split("|")[1].strip() for line in drawn.splitlines()[2:]] == [COPY, "one"]
