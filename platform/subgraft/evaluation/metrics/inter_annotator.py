"""How far judges agree: Krippendorff's alpha (2011, "Computing Krippendorff's Alpha-Reliability"), by nltk.

1 is full agreement, 0 is what chance brings about. Not every judge need have judged everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

# Answers as numbers by judge and by what was judged.
Answers: TypeAlias = Mapping[str, Mapping[str, int]]
Scale = Literal["nominal", "interval"]


def krippendorff_alpha(answers: Answers, scale: Scale) -> float | None:
    """None where it is not defined: nothing was judged twice, or all that was judged twice got one and the same answer.

    scale: nominal answers are equal or not; of interval ones, the square of the difference counts.
    """
    from nltk.metrics import binary_distance, interval_distance
    from nltk.metrics.agreement import AnnotationTask

    judged: dict[str, list[int]] = {}
    for of_judge in answers.values():
        for what, answer in of_judge.items():
            judged.setdefault(what, []).append(answer)
    shared = {what for what, given in judged.items() if len(given) > 1}
    if len({answer for what in shared for answer in judged[what]}) < 2:
        return None
    distance = binary_distance if scale == "nominal" else interval_distance
    triples = [(judge, what, given[what]) for judge, given in answers.items() for what in given if what in shared]
    return float(AnnotationTask(triples, distance=distance).alpha())
