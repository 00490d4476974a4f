"""What was measured of a vocabulary of the task's own, by the amount of text: the figures that advice rests on.

All are of docs/results.md, whose sections are named: three seeds, English to French, a model of 7.5 million parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from subgraft.experiments.fit.choices import INITIALISER


@dataclass(frozen=True)
class Evidence:
    """Of so many pairs, what a new vocabulary begun as `mean` brought over the old one: the mean and its 95 % interval.

    bleu, chrf: points.  p: of the BLEU, two-sided.  section: of docs/results.md.
    """

    pairs: int
    bleu: tuple[float, float, float]
    p: float
    chrf: float
    section: str

    @property
    def certain(self) -> bool:
        """Whether the gain is beyond what luck explains."""
        return self.bleu[1] > 0


EVIDENCE = (
    Evidence(2_000, (0.50, -0.09, 1.10), 0.145, 1.2, "Few pairs and a domain's text"),
    Evidence(15_000, (2.10, 1.36, 2.86), 0.019, 3.6, "tatoeba → Python documentation: the main systems"),
)


# Over the old vocabulary, with 2,000 pairs: "Replaced, extended or trimmed".
EXTENDED_CHRF, TRIMMED_CHRF = 1.6, -0.3


def evidence_for(lines: int) -> Evidence:
    """What was measured at the amount of text that is nearest, as a ratio."""
    return min(EVIDENCE, key=lambda each: abs(math.log(max(1, lines) / each.pairs)))


def recommended(lines: int, continues: bool) -> str:
    """Which method to take for so many lines, and how sure that is. continues: whether the model continues text."""
    found = evidence_for(lines)
    mean, low, high = found.bleu
    worth = "brought" if found.certain else "brought what cannot be told from luck:"
    what = (
        f"The nearest that was measured is {found.pairs:,} pairs of a translation ({found.section}). A vocabulary of "
        f"the task's own, new rows begun as `{INITIALISER}`, {worth} {mean:+.2f} BLEU [{low:+.2f}, {high:+.2f}] "
        f"(p = {found.p:g}) and {found.chrf:+.1f} chrF there; other starts brought no more BLEU."
    )
    kept = " A model that is used for other text too had better be extended." if continues else ""
    others = (
        f"With 2,000 pairs, a vocabulary extended by 2,000 subwords brought {EXTENDED_CHRF:+.1f} chrF and a trimmed "
        f"one {TRIMMED_CHRF:+.1f}, which luck explains too."
    )
    return f"{what} {others}{kept}"
