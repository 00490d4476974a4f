"""BLEU of translated documents: d-BLEU of whole documents, and s-BLEU of their sentences.

Liu et al., "Multilingual Denoising Pre-training for Neural Machine Translation" (TACL 2020), section 4.2: sentences of
blocks that are translated as a whole can be scored only where each document has as many as its reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.scores import Score, check_parallel, corpus_scores

Documents = Sequence[Sequence[str]]


def join_sentences(document: Sequence[str]) -> str:
    """Join the sentences of a document with spaces, into one segment."""
    return " ".join(document)


def document_bleu(hypotheses: Documents, references: Documents, language: str) -> Score:
    """BLEU of documents, each of which is one segment, so that n-grams are matched across its sentences.

    Raises UserError if there are none, or their numbers differ.
    """
    check_parallel(hypotheses, references, kind="documents")
    segments = [[join_sentences(document) for document in documents] for documents in (hypotheses, references)]
    return _bleu("d-BLEU", *segments, language=language)


def sentence_bleu(hypotheses: Documents, references: Documents, language: str) -> Score:
    """BLEU of the sentences of documents.

    Raises UserError if there are none, or a document has more or fewer sentences than its reference.
    """
    check_parallel(hypotheses, references, kind="documents")
    if differing := unaligned(hypotheses, references):
        index = differing[0]
        raise UserError(
            f"{len(differing)} of {len(references)} documents have other numbers of sentences than their references "
            f"(the {_ordinal(index + 1)} has {len(hypotheses[index])}, not {len(references[index])}), so that their "
            "sentences cannot be compared",
            hint="d-BLEU compares whole documents.",
        )
    sentences = [list(chain.from_iterable(documents)) for documents in (hypotheses, references)]
    return _bleu("s-BLEU", *sentences, language=language)


def _bleu(name: str, hypotheses: Sequence[str], references: Sequence[str], *, language: str) -> Score:
    return replace(corpus_scores(hypotheses, references, language, ["BLEU"])["BLEU"], name=name)


def unaligned(hypotheses: Documents, references: Documents) -> list[int]:
    """The indices of the documents that have more or fewer sentences than their references."""
    pairs = zip(hypotheses, references, strict=True)
    return [index for index, (output, reference) in enumerate(pairs) if len(output) != len(reference)]


def _ordinal(number: int) -> str:
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"
