"""Corpus scores agree with sacrebleu's own functions and carry their settings."""

from __future__ import annotations

import pytest
import sacrebleu

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.scores import FURTHER_METRICS, METRICS, AnyMetricName, corpus_scores, signature

VERSION = sacrebleu.__version__

REFERENCES = ["Le contrat est résilié sans préavis.", "La cour d'appel rejette la demande."]
HYPOTHESES = ["Le contrat est annulé sans préavis.", "La cour d'appel a rejeté la demande !"]


def test_scores_are_sacrebleus() -> None:
    scores = corpus_scores(HYPOTHESES, REFERENCES, "fr")
    assert scores["BLEU"].value == pytest.approx(sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score)
    assert scores["chrF"].value == pytest.approx(sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score)
    assert scores["TER"].value == pytest.approx(sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score)
    assert tuple(scores) == METRICS


def test_ter_on_the_example_of_snover_2006() -> None:
    # One shift, two substitutions and one insertion for thirteen words.
    hypothesis = "THIS WEEK THE SAUDIS denied information published in the new york times"
    reference = "SAUDI ARABIA denied THIS WEEK information published in the AMERICAN new york times"
    scores = corpus_scores([hypothesis], [reference], "en", ["TER"])
    assert scores["TER"].value == pytest.approx(100 * 4 / 13)
    assert list(scores) == ["TER"]


def test_scores_of_sentences_are_averaged() -> None:
    hypotheses, references = ["police kill the gunman", "nothing"], ["police killed the gunman", "at all"]
    scores = corpus_scores(hypotheses, references, "en")
    assert scores["ROUGE-L"].value == pytest.approx(100 * (3 / 4 + 0) / 2)
    # All four words match, "kill" by its stem, in one chunk.
    assert scores["METEOR"].value == pytest.approx(100 * (1 - 0.5 * (1 / 4) ** 3) / 2)


def test_signatures_name_tokenizer_case_and_version() -> None:
    scores = corpus_scores(HYPOTHESES, REFERENCES, "fr")
    assert scores["BLEU"].signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{VERSION}"
    assert scores["chrF"].signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|")
    assert scores["TER"].signature == f"nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:{VERSION}"
    assert scores["ROUGE-L"].signature == "nrefs:1|case:lc|tok:alphanumeric|stem:no|beta:1|corpus:mean-of-sentences"


def test_further_metrics_are_means_of_sentences_in_points() -> None:
    scores = corpus_scores(["a b c", "q"], ["a b d", "e f"], "en", FURTHER_METRICS)
    assert {name: score.value for name, score in scores.items()} == pytest.approx(
        {"ROUGE-1": 100 / 3, "ROUGE-2": 25, "CIDEr": 100 * 10 / 4 * (2 / 3 + 1 / 2) / 2}
    )


@pytest.mark.parametrize("metric", [*METRICS, *FURTHER_METRICS])
@pytest.mark.parametrize("language", ["fr", "zh"])
def test_a_signature_needs_no_scoring(metric: AnyMetricName, language: str) -> None:
    scored = corpus_scores(HYPOTHESES, REFERENCES, language, [metric])
    assert signature(metric, language) == scored[metric].signature


def test_case_counts() -> None:
    lower = [hypothesis.lower() for hypothesis in REFERENCES]
    assert corpus_scores(lower, REFERENCES, "fr")["BLEU"].value < 100


@pytest.mark.parametrize("language", ["zh", "zh_CN", "zh-Hans"])
def test_chinese_is_scored_by_characters(language: str) -> None:
    # Without white space 13a sees one word per sentence, and a single wrong character loses all of it.
    scores = corpus_scores(["我们今天下午去图书馆看书"], ["我们明天下午去图书馆看书"], language)
    assert "tok:zh" in scores["BLEU"].signature
    assert scores["BLEU"].value > 50
    assert "asian:yes" in scores["TER"].signature
    assert scores["TER"].value == pytest.approx(100 * 1 / 12)


def test_unequal_counts_are_reported_with_both_counts() -> None:
    with pytest.raises(UserError, match="2 hypotheses but 1 references"):
        corpus_scores(HYPOTHESES, REFERENCES[:1], "fr")


def test_nothing_to_score_is_an_error() -> None:
    with pytest.raises(UserError, match="nothing to score"):
        corpus_scores([], [], "fr")
