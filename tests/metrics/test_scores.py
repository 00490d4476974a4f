"""Corpus scores agree with sacrebleu's own functions and carry their settings."""

from __future__ import annotations

import pytest
import sacrebleu

from subgraft.errors import UserError
from subgraft.metrics.scores import corpus_scores

REFERENCES = ["Le contrat est résilié sans préavis.", "La cour d'appel rejette la demande."]
HYPOTHESES = ["Le contrat est annulé sans préavis.", "La cour d'appel a rejeté la demande !"]


def test_scores_are_sacrebleus() -> None:
    scores = corpus_scores(HYPOTHESES, REFERENCES, "fr")
    assert scores["BLEU"].value == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score)
    assert scores["chrF"].value == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score)


def test_signatures_name_tokenizer_case_and_version() -> None:
    scores = corpus_scores(HYPOTHESES, REFERENCES, "fr")
    assert scores["BLEU"].signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert scores["chrF"].signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|")


def test_case_counts() -> None:
    lower = [hypothesis.lower() for hypothesis in REFERENCES]
    assert corpus_scores(lower, REFERENCES, "fr")["BLEU"].value < 100


@pytest.mark.parametrize("language", ["zh", "zh_CN", "zh-Hans"])
def test_chinese_is_scored_by_characters(language: str) -> None:
    # Without white space 13a sees one word per sentence, and a single wrong character loses all of it.
    scores = corpus_scores(["我们今天下午去图书馆看书"], ["我们明天下午去图书馆看书"], language)
    assert "tok:zh" in scores["BLEU"].signature
    assert scores["BLEU"].value > 50


def test_unequal_counts_are_told_with_both_counts() -> None:
    with pytest.raises(UserError, match="2 hypotheses but 1 references"):
        corpus_scores(HYPOTHESES, REFERENCES[:1], "fr")


def test_nothing_to_score_is_an_error() -> None:
    with pytest.raises(UserError, match="nothing to score"):
        corpus_scores([], [], "fr")
