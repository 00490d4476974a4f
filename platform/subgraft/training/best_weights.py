"""What decides which weights of a training are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from subgraft.config.training import SelectName


class Selection(NamedTuple):
    """A dev score by its name, and whether the best weights are those that have the least of it."""

    score: str
    least: bool = False

    def worth(self, scores: Mapping[str, float]) -> float:
        """The higher, the better."""
        score = float(scores[self.score])
        return -score if self.least else score


# For a model that translates; `last`: nothing does.
SELECTIONS: Mapping[SelectName, Selection | None] = {
    "bleu": Selection("bleu"),
    "chrf": Selection("chrf"),
    "likelihood": Selection("bits_per_character", least=True),
    "last": None,
}
