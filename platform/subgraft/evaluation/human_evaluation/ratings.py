"""Results of filled sheets: means with intervals over items, and the agreement of the judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from subgraft.evaluation.human_evaluation.answers import Answers
from subgraft.evaluation.human_evaluation.sheet import Key
from subgraft.evaluation.metrics.sentence_statistics import ratio
from subgraft.evaluation.metrics.significance import Estimate, estimate

if TYPE_CHECKING:
    from subgraft.base.terminal import Table


COMBINED = "combined"
Scale = Literal["nominal", "interval"]


@dataclass(frozen=True)
class Ratings:
    """Results of the rows that are filled in.

    Attributes:
        judges: Those who filled in any row.
        unfilled: Rows of all sheets without an answer to every question, which are left out.
        systems: Estimates for every question and for their sum; a system without any answer is absent.
        agreement: Alpha by question, if defined.
    """

    run: str
    judges: int
    items: int
    unfilled: int
    systems: Mapping[str, Mapping[str, Estimate]]
    agreement: Mapping[str, float | None]

    def as_json(self) -> dict[str, object]:
        """The ratings as JSON values, in the format of the result file."""
        systems = {
            name: {
                question: {"mean": result.score, "interval": [result.interval.low, result.interval.high]}
                for question, result in estimates.items()
            }
            for name, estimates in self.systems.items()
        }
        return {
            "run": self.run,
            "judges": self.judges,
            "items": self.items,
            "unfilled_rows": self.unfilled,
            "confidence": 0.95,
            "systems": systems,
            "krippendorff_alpha": dict(self.agreement),
        }

    def table(self) -> Table:
        """A table for a terminal, with the best system first."""
        from subgraft.base.terminal import Table

        unfilled = f" {self.unfilled} rows are not filled in and left out." if self.unfilled else ""
        caption = (
            f"{self.judges} judges, {self.items} items.{unfilled} Means with 95 % intervals, over items by bootstrap; "
            "agreement is Krippendorff's alpha: 1 is full, 0 is chance."
        )
        table = Table(box=None, pad_edge=False, caption=caption, caption_justify="left")
        table.add_column("system")
        for question in self.agreement:
            table.add_column(question, justify="right")
        for name, estimates in sorted(self.systems.items(), key=lambda item: -item[1][COMBINED].score):
            ends = ((each.score, each.interval.low, each.interval.high) for each in estimates.values())
            table.add_row(name, *(f"{score:.2f} [{low:.2f}, {high:.2f}]" for score, low, high in ends))
        alphas = ("–" if alpha is None else f"{alpha:.2f}" for alpha in self.agreement.values())
        table.add_row("agreement", *alphas)
        return table


def rate(key: Key, answers: Mapping[str, Answers], samples: int = 1000) -> Ratings:
    """Summarise answers by judge to texts of the key. The same answers make the same intervals."""
    answered = {name for by_text in answers.values() for name in by_text}
    rated = {key.texts[name].system for name in answered}
    numbers = {
        question: {
            judge: {name: answer[index] for name, answer in by_text.items()} for judge, by_text in answers.items()
        }
        for index, question in enumerate(key.questions)
    }
    numbers[COMBINED] = {
        judge: {name: sum(answer) for name, answer in by_text.items()} for judge, by_text in answers.items()
    }
    systems = {
        system: {question: _estimate(key, system, by_judge, samples) for question, by_judge in numbers.items()}
        for system in key.systems
        if system in rated
    }
    agreement = {
        question: krippendorff_alpha(by_judge, "interval" if question == COMBINED or key.most > 1 else "nominal")
        for question, by_judge in numbers.items()
    }
    items = len({key.texts[name].item for name in answered})
    unfilled = sum(len(key.texts) - len(by_text) for by_text in answers.values())
    return Ratings(key.run, sum(map(bool, answers.values())), items, unfilled, systems, agreement)


def _estimate(key: Key, system: str, by_judge: Mapping[str, Mapping[str, int]], samples: int) -> Estimate:
    """The mean over judges and items. The bootstrap resamples items only."""
    answers = [
        [numbers[name] for numbers in by_judge.values() if name in numbers]
        for name, origin in key.texts.items()
        if origin.system == system
    ]
    statistics = np.array([[[sum(item), len(item)] for item in answers if item]], dtype=np.float64)
    return estimate(ratio, statistics, samples=samples, seed=key.seed)


def krippendorff_alpha(answers: Mapping[str, Mapping[str, int]], scale: Scale) -> float | None:
    """The agreement of judges: Krippendorff's alpha (2011, "Computing Krippendorff's Alpha-Reliability").

    Args:
        answers: By judge and by item, the answer as a number. A judge may have answered for some items only.
        scale: Nominal answers are equal or not; interval answers differ by the square of their difference.

    Returns:
        1 for full agreement, 0 for chance. None where alpha is undefined: no item has two answers, or all those
        answers are equal.
    """
    from nltk.metrics import binary_distance, interval_distance
    from nltk.metrics.agreement import AnnotationTask

    by_item: dict[str, list[int]] = {}
    for by_judge in answers.values():
        for item, answer in by_judge.items():
            by_item.setdefault(item, []).append(answer)
    shared = {item for item, item_answers in by_item.items() if len(item_answers) > 1}
    if len({answer for item in shared for answer in by_item[item]}) < 2:
        return None
    distance = binary_distance if scale == "nominal" else interval_distance
    triples = [
        (judge, item, answer)
        for judge, by_judge in answers.items()
        for item, answer in by_judge.items()
        if item in shared
    ]
    return float(AnnotationTask(triples, distance=distance).alpha())
