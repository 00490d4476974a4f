"""Translation in several directions by one model, which is trained on the pairs of all directions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from statistics import fmean

from torch import nn

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings
from subgraft.data.text.languages import LanguageDraws
from subgraft.evaluation.metrics.bits_per_character import LEFT_OUT
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.compute.interface import Concatenation, Request, TaskText
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData
from subgraft.training.objectives.compute.translation import TaskPairs
from subgraft.training.objectives.objective import AnyObjective


class Directions(Seq2SeqData):
    """The pairs of several directions. Batches mix directions, because every example has its own language codes.

    With an exponent α, pairs of a direction occur with the probability p^α / Σ p^α, where p is its share of all pairs
    (`LanguageDraws`). Without one, an epoch is one pass over all pairs.

    sizes: the number of pairs of each direction.
    """

    def __init__(self, parts: Mapping[str, TaskPairs], exponent: float | None, seed: int) -> None:
        self._parts, self.sizes = parts, {name: len(part.lengths) for name, part in parts.items()}
        if empty := [name for name, size in self.sizes.items() if not size]:
            raise UserError("it has no training pairs after cleaning", where=f"directions: {empty[0]}")
        draws = None if exponent is None else LanguageDraws(list(parts), list(self.sizes.values()), exponent, seed)
        first = next(iter(parts.values()))
        super().__init__(Concatenation([part.examples for part in parts.values()], draws), *first.padding)

    @property
    def cut(self) -> int:
        """The number of truncated pairs."""
        return sum(part.cut for part in self._parts.values())

    @property
    def texts(self) -> Mapping[SideName, Iterable[str]]:
        """The lines of all directions that each side of the model reads or writes."""
        sides: tuple[SideName, ...] = ("encoder", "decoder")
        return {side: chain.from_iterable(part.texts[side] for part in self._parts.values()) for side in sides}

    def loss(self, bundle: Bundle) -> nn.Module:
        """The loss, which is the same for all directions."""
        return next(iter(self._parts.values())).loss(bundle)

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]:
        """The mean scores of all directions, which select weights, and those of each direction as NAME_score."""
        scorers = {name: part.dev_scores(bundle) for name, part in self._parts.items()}

        def scores() -> dict[str, float]:
            by_direction = {name: scorer() for name, scorer in scorers.items()}
            left_out = sum(direction_scores.pop(LEFT_OUT, 0.0) for direction_scores in by_direction.values())
            names = next(iter(by_direction.values()))
            means = {
                score: fmean(direction_scores[score] for direction_scores in by_direction.values()) for score in names
            }
            scores_by_direction = {
                f"{name}_{score}": value
                for name, direction_scores in by_direction.items()
                for score, value in direction_scores.items()
            }
            return {**means, **scores_by_direction, **({LEFT_OUT: left_out} if left_out else {})}

        return scores


def directions_text(
    settings: AnyObjective, requests: Mapping[str, Request], training: FinetuneSettings, exponent: float | None
) -> TaskText:
    """The text of a task with several directions, by name; for one direction, the text of that direction."""
    parts = {name: settings.finetuning(request, training) for name, request in requests.items()}
    if len(parts) == 1:
        return next(iter(parts.values()))
    pairs = {name: part for name, part in parts.items() if isinstance(part, TaskPairs)}
    return Directions(pairs, exponent, next(iter(requests.values())).seed)
