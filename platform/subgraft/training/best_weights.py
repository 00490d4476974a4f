"""What decides which weights of a training are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from subgraft.config.training import SelectName


class Selection(NamedTuple):
    """The dev score that selects the best weights. least: whether lower is better."""

    score: str
    least: bool = False

    def worth(self, scores: Mapping[str, float]) -> float:
        """The score as a number that is better if it is higher."""
        score = float(scores[self.score])
        return -score if self.least else score


# For a model that translates; `last`: nothing does.
SELECTIONS: Mapping[SelectName, Selection | None] = {
    "bleu": Selection("bleu"),
    "chrf": Selection("chrf"),
    "likelihood": Selection("bits_per_character", least=True),
    "last": None,
}
