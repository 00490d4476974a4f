"""What filled sheets come to: means with intervals over items, and how far the judges agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from subgraft.evaluation.human_evaluation.answers import Answers
from subgraft.evaluation.human_evaluation.key import Key
from subgraft.evaluation.metrics.inter_annotator import Scale, krippendorff_alpha
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.evaluation.metrics.significance import Estimate, estimate

if TYPE_CHECKING:
    from rich.table import Table

COMBINED = "combined"


@dataclass(frozen=True)
class Ratings:
    """systems: of each, an estimate for every question and for their sum.  agreement: of each of these, alpha.

    agreement is None where it is not defined.
    """

    run: str
    judges: int
    items: int
    systems: Mapping[str, Mapping[str, Estimate]]
    agreement: Mapping[str, float | None]

    def as_json(self) -> dict[str, object]:
        """As it is written to a file."""
        systems = {
            name: {
                what: {"mean": one.score, "interval": [one.interval.low, one.interval.high]}
                for what, one in found.items()
            }
            for name, found in self.systems.items()
        }
        told = {"run": self.run, "judges": self.judges, "items": self.items, "confidence": 0.95}
        return {**told, "systems": systems, "krippendorff_alpha": dict(self.agreement)}

    def table(self) -> Table:
        """For a terminal, the best first."""
        from subgraft.base.terminal import Sheet

        shown = Sheet(box=None, pad_edge=False, caption=self._caption(), caption_justify="left")
        shown.add_column("system")
        for what in self.agreement:
            shown.add_column(what, justify="right")
        for name, found in sorted(self.systems.items(), key=lambda item: -item[1][COMBINED].score):
            shown.add_row(name, *(_cell(one) for one in found.values()))
        alphas = ("–" if alpha is None else f"{alpha:.2f}" for alpha in self.agreement.values())
        shown.add_row("agreement", *alphas)
        return shown

    def _caption(self) -> str:
        return (
            f"{self.judges} judges, {self.items} items. Means with 95 % intervals, over items by bootstrap; agreement "
            "is Krippendorff's alpha: 1 is full, 0 is chance."
        )


def _cell(one: Estimate) -> str:
    return f"{one.score:.2f} [{one.interval.low:.2f}, {one.interval.high:.2f}]"


def rate(key: Key, answers: Mapping[str, Answers], samples: int = 1000) -> Ratings:
    """answers: of each judge, all texts of the key. The same answers make the same intervals."""
    parts = {question: place for place, question in enumerate(key.questions)}
    numbers = {
        what: {judge: {name: found[place] for name, found in given.items()} for judge, given in answers.items()}
        for what, place in parts.items()
    }
    numbers[COMBINED] = {judge: {name: sum(found) for name, found in given.items()} for judge, given in answers.items()}
    systems = {
        system: {what: _estimate(key, system, by_judge, samples) for what, by_judge in numbers.items()}
        for system in key.systems
    }
    agreement = {what: krippendorff_alpha(by_judge, _scale(key, what)) for what, by_judge in numbers.items()}
    items = len({written.item for written in key.texts.values()})
    return Ratings(key.run, len(answers), items, systems, agreement)


def _scale(key: Key, what: str) -> Scale:
    return "interval" if what == COMBINED or key.most > 1 else "nominal"


def _estimate(key: Key, system: str, by_judge: Mapping[str, Mapping[str, int]], samples: int) -> Estimate:
    """The mean over judges and items, of which items are resampled."""
    names = [name for name, written in key.texts.items() if written.system == system]
    sums = [sum(given[name] for given in by_judge.values()) for name in names]
    statistics = np.array([[[total, len(by_judge)] for total in sums]], dtype=np.float64)
    return estimate(_mean, statistics, samples=samples, seed=key.seed)


def _mean(sums: FloatArray) -> FloatArray:
    return np.asarray(sums[..., 0] / sums[..., 1])
