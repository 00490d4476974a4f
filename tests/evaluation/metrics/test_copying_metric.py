"""Copies of sources among outputs, against sacrebleu."""

from __future__ import annotations

import pytest
import sacrebleu

from subgraft.evaluation.metrics.copying import copied_scores, copying

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
