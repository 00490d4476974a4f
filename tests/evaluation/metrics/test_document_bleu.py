"""d-BLEU is sacrebleu's of documents joined by hand; s-BLEU is of sentences, where each document has as many."""

from __future__ import annotations

import pytest
import sacrebleu

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.document_bleu import document_bleu, sentence_bleu, unaligned

REFERENCES = [
    ["In the beginning was the word.", "The word was with the house.", "It was good."],
    ["A man went down to the town.", "He had no bread and no water."],
]
HYPOTHESES = [
    ["In the beginning was a word.", "The word was with the house and", "it was good."],
    ["A man went to the town.", "He had bread and no water at all."],
]


def test_d_bleu_is_sacrebleus_of_hand_joined_documents() -> None:
    hypotheses = [
        "In the beginning was a word. The word was with the house and it was good.",
        "A man went to the town. He had bread and no water at all.",
    ]
    references = [
        "In the beginning was the word. The word was with the house. It was good.",
        "A man went down to the town. He had no bread and no water.",
    ]
    metric = sacrebleu.BLEU()
    expected = metric.corpus_score(hypotheses, [references]).score
    score = document_bleu(HYPOTHESES, REFERENCES, "en")
    assert score.value == pytest.approx(expected, abs=1e-9) and 0 < expected < 100
    assert score.signature == str(metric.get_signature()) and score.name == "d-BLEU"


def test_s_bleu_is_sacrebleus_of_the_sentences_and_another_figure() -> None:
    flat = [[sentence for document in documents for sentence in document] for documents in (HYPOTHESES, REFERENCES)]
    score = sentence_bleu(HYPOTHESES, REFERENCES, "en")
    assert score.value == pytest.approx(sacrebleu.corpus_bleu(flat[0], [flat[1]]).score, abs=1e-9)
    assert score.value != pytest.approx(document_bleu(HYPOTHESES, REFERENCES, "en").value, abs=1e-3)


def test_where_sentences_join_differently_d_bleu_is_the_same_and_s_bleu_is_refused() -> None:
    other = [["In the beginning was a word. The word was with the house and", "it was good."], HYPOTHESES[1]]
    assert document_bleu(other, REFERENCES, "en") == document_bleu(HYPOTHESES, REFERENCES, "en")
    assert unaligned(other, REFERENCES) == [0]
    with pytest.raises(UserError, match=r"1 of 2 documents .* \(the 1st has 2, not 3\)"):
        sentence_bleu(other, REFERENCES, "en")


def test_an_equal_total_of_sentences_is_not_enough() -> None:
    """One document has a sentence too many and another one too few."""
    other = [[*HYPOTHESES[0], "More."], HYPOTHESES[1][:1]]
    assert sum(map(len, other)) == sum(map(len, REFERENCES))
    with pytest.raises(UserError, match="2 of 2 documents"):
        sentence_bleu(other, REFERENCES, "en")


def test_other_numbers_of_documents_are_refused() -> None:
    for score in (document_bleu, sentence_bleu):
        with pytest.raises(UserError, match="1 documents but 2 references"):
            score(HYPOTHESES[:1], REFERENCES, "en")
