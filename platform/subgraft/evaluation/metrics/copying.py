"""Whether outputs are translations, or copies of their sources: these score above zero where languages share words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from subgraft.evaluation.metrics.scores import corpus_scores

# A system whose outputs are sources to this share, or score this BLEU against them, does little else than copy.
MOSTLY, ALIKE = 0.5, 50.0


@dataclass(frozen=True)
class Copying:
    """Copies among the outputs of a system.

    Attributes:
        identical: The share of outputs that equal their sources, ignoring case and white space around them.
        against_sources: BLEU of the outputs against their sources.
    """

    identical: float
    against_sources: float

    @property
    def only_copies(self) -> bool:
        """Whether the system does little else than copy."""
        return self.identical >= MOSTLY or self.against_sources >= ALIKE


def copying(sources: Sequence[str], outputs: Sequence[str], language: str) -> Copying:
    """Copies among outputs; `language` is that of the outputs."""
    same = sum(
        source.strip().lower() == output.strip().lower() for source, output in zip(sources, outputs, strict=True)
    )
    against_sources = corpus_scores(outputs, sources, language, ["BLEU"])["BLEU"].value
    return Copying(same / len(outputs), against_sources)


def copied_scores(sources: Sequence[str], references: Sequence[str], language: str) -> dict[str, float]:
    """BLEU and chrF of the sources themselves, as if they were translations."""
    scores = corpus_scores(sources, references, language, ["BLEU", "chrF"])
    return {name: score.value for name, score in scores.items()}
