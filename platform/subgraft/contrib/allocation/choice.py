"""Choose each language's vocabulary size so that their union stays within a total (Zheng et al. 2021, section 2.2).

Maximises Σ_l weight_l ALP_l(size_l) with |∪_l V_l| ≤ total. Algorithm 1 of the paper takes the steepest step of 1,000
pieces at a time and ignores shared pieces. Here steps are segments of each curve's concave hull, and the cost of a step
is the actual growth of the union.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subgraft.base import json_io
from subgraft.base.errors import UserError

# The beam size of the search for the combination of vocabularies with the fewest pieces.
BEAM_SIZE = 256


class NoRoomError(UserError):
    """The total is too small.

    Attributes:
        needed: The size of the smallest union of vocabularies of all languages.
    """

    def __init__(self, what: str, needed: int) -> None:
        super().__init__(what, hint="Allow a larger total.")
        self.needed = needed


@dataclass(frozen=True)
class Candidate:
    """The candidate vocabularies of a language: ascending sizes, the weighted value of each, and its pieces."""

    sizes: Sequence[int]
    values: Sequence[float]
    pieces: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Choice:
    """The chosen sizes by language, the size of the union, the value of the objective, and an upper bound on it."""

    sizes: Mapping[str, int]
    union: int
    value: float
    bound: float


def choose(candidates: Mapping[str, Candidate], total: int) -> Choice:
    """Sizes whose union has at most `total` pieces. Raises NoRoomError if the smallest union is larger."""
    problem = _AllocationProblem(candidates)
    steps = problem.greedy(total)
    sizes = {name: candidate.sizes[steps[name]] for name, candidate in candidates.items()}
    value = sum(candidate.values[steps[name]] for name, candidate in candidates.items())
    return Choice(sizes, problem.union_of(steps), value, problem.bound(total))


@dataclass(frozen=True)
class _AllocationProblem:
    candidates: Mapping[str, Candidate]

    @cached_property
    def ids(self) -> dict[str, list[NDArray[np.int64]]]:
        """The pieces of each vocabulary of each language, as numbers shared by all languages."""
        numbers: dict[str, int] = {}
        return {
            name: [
                np.array([numbers.setdefault(piece, len(numbers)) for piece in pieces], dtype=np.int64)
                for pieces in candidate.pieces
            ]
            for name, candidate in self.candidates.items()
        }

    @cached_property
    def count(self) -> int:
        """The number of distinct pieces of all vocabularies."""
        return 1 + max(int(ids.max()) for vocabularies in self.ids.values() for ids in vocabularies)

    def union_of(self, steps: Mapping[str, int]) -> int:
        in_union = np.zeros(self.count, dtype=bool)
        for name, step in steps.items():
            in_union[self.ids[name][step]] = True
        return int(in_union.sum())

    @cached_property
    def certain(self) -> NDArray[np.bool_]:
        """Pieces that some language has at every size, so they are in the union of any choice."""
        certain = np.zeros(self.count, dtype=bool)
        for vocabularies in self.ids.values():
            uses = np.bincount(np.concatenate(vocabularies), minlength=self.count)
            certain |= uses == len(vocabularies)
        return certain

    @cached_property
    def costs(self) -> dict[str, list[float]]:
        """A lower bound on each vocabulary's share of the union: a piece that m languages may have costs 1/m in each.

        Σ_l cost_l ≤ |union| - |certain| for any choice, because the costs of a piece add up to at most 1.
        """
        sharers = np.zeros(self.count)
        for vocabularies in self.ids.values():
            sharers += np.bincount(np.concatenate(vocabularies), minlength=self.count) > 0
        prices = np.where(self.certain, 0.0, 1.0 / np.maximum(sharers, 1))
        return {name: [float(prices[ids].sum()) for ids in vocabularies] for name, vocabularies in self.ids.items()}

    @cached_property
    def hulls(self) -> dict[str, Hull]:
        return {name: concave_hull(self.costs[name], candidate.values) for name, candidate in self.candidates.items()}

    def bound(self, total: int) -> float:
        """The optimum of a relaxation: costs as above, and any point on the hulls.

        It is solved by taking segments of all hulls by descending slope, the last one partially.
        """
        remaining = total - int(self.certain.sum()) - sum(float(hull.costs[0]) for hull in self.hulls.values())
        value = sum(float(hull.values[0]) for hull in self.hulls.values())
        segments = [
            (float(slope), float(width))
            for hull in self.hulls.values()
            for slope, width in zip(hull.slopes, np.diff(hull.costs), strict=True)
        ]
        for slope, width in sorted(segments, reverse=True):
            value += slope * min(width, max(0.0, remaining))
            remaining -= width
        return value

    def greedy(self, total: int) -> dict[str, int]:
        """The chosen step of each language, as an index into its sizes."""
        steps = {name: hull.points[0] for name, hull in self.hulls.items()}
        if self.union_of(steps) > total:
            steps = self.smallest()
        uses = np.zeros(self.count, dtype=np.int64)
        for name, step in steps.items():
            uses[self.ids[name][step]] += 1
        union = int(np.count_nonzero(uses))
        if union > total:
            problem = f"the smallest vocabularies of {len(steps)} languages have {union:,} pieces together"
            raise NoRoomError(f"{problem}, more than the {total:,} that there is room for", union)
        while move := self._best_move(steps, uses, total - union):
            name, step = move
            union += self._growth(uses, name, steps[name], step)
            uses[self.ids[name][steps[name]]] -= 1
            uses[self.ids[name][step]] += 1
            steps[name] = step
        return steps

    def smallest(self) -> dict[str, int]:
        """The vocabularies with the fewest pieces together, as an index into the sizes of each language.

        They need not be the smallest of each language, because a larger one may share more subwords with the others. A
        beam search adds languages one by one and retains the BEAM_SIZE combinations with the fewest pieces.
        """
        beam: list[tuple[dict[str, int], NDArray[np.uint8]]] = [({}, np.zeros(-(-self.count // 8), dtype=np.uint8))]
        for name, vocabularies in self.ids.items():
            bitsets = [np.packbits(np.isin(np.arange(self.count), ids)) for ids in vocabularies]
            extended = [
                ({**steps, name: step}, union | bitset) for steps, union in beam for step, bitset in enumerate(bitsets)
            ]
            beam = sorted(extended, key=lambda hypothesis: int(np.bitwise_count(hypothesis[1]).sum()))[:BEAM_SIZE]
        return beam[0][0]

    def _best_move(self, steps: Mapping[str, int], uses: NDArray[np.int64], room: int) -> tuple[str, int] | None:
        """The step with the largest gain per additional piece of the union; ties go to the first language."""
        best: tuple[float, str, int] | None = None
        for name, step in steps.items():
            for next_step in self._next_steps(name, step):
                growth = self._growth(uses, name, step, next_step)
                if growth > room:
                    continue
                values = self.candidates[name].values
                rate = (values[next_step] - values[step]) / max(growth, 1e-9)
                if best is None or rate > best[0]:
                    best = (rate, name, next_step)
                break
        return best and best[1:]

    def _next_steps(self, name: str, step: int) -> list[int]:
        """A language's next steps: the next point of its hull, then, if that does not fit, smaller steps."""
        values, hull = self.candidates[name].values, self.hulls[name]
        costs = self.costs[name]
        later = [i for i in hull.points if costs[i] > costs[step] and values[i] > values[step]]
        if not later:
            return []
        next_cost = costs[later[0]]
        between = [i for i in range(len(values)) if costs[step] < costs[i] < next_cost and values[i] > values[step]]
        return [later[0], *sorted(between, key=lambda i: -values[i])]

    def _growth(self, uses: NDArray[np.int64], name: str, step: int, next_step: int) -> int:
        """The growth of the union, in pieces, when a language changes from one vocabulary to another."""
        old, new = self.ids[name][step], self.ids[name][next_step]
        uses[old] -= 1
        growth = int(np.count_nonzero(uses[new] == 0)) - int(np.count_nonzero(uses[old] == 0))
        uses[old] += 1
        return growth


# The greedy choice and the bound use the concave hull of a language's value over its cost, because the slopes of the
# curve itself do not always decrease. The hull's slopes are the isotonic regression of the curve's slopes, computed by
# pooling adjacent violators (Barlow et al., 1972).


@dataclass(frozen=True)
class Hull:
    """Indices of the points on a concave hull, by ascending cost, and their costs and values; the slopes decrease."""

    points: tuple[int, ...]
    costs: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def slopes(self) -> NDArray[np.float64]:
        slopes: NDArray[np.float64] = np.diff(self.values) / np.diff(self.costs)
        return slopes


def concave_hull(costs: Sequence[float], values: Sequence[float]) -> Hull:
    """The hull of the points that are not dominated by a point of at most the same cost and more value."""
    from sklearn.isotonic import isotonic_regression

    points: list[int] = []
    for i in sorted(range(len(costs)), key=lambda i: (costs[i], -values[i])):
        if not points or values[i] > values[points[-1]]:
            points.append(i)
    x, y = np.array([costs[i] for i in points], dtype=float), np.array([values[i] for i in points], dtype=float)
    if len(points) > 2:
        widths = np.diff(x)
        fitted = isotonic_regression(np.diff(y) / widths, sample_weight=widths, increasing=False)
        # A point between two equal slopes is inside a pooled block, so it is not a corner of the hull.
        corners = np.concatenate([[True], ~np.isclose(fitted[1:], fitted[:-1], rtol=1e-12, atol=0), [True]])
        points, x, y = [i for i, is_corner in zip(points, corners, strict=True) if is_corner], x[corners], y[corners]
    return Hull(tuple(points), x, y)


RECORD = "allocation.json"


@dataclass(frozen=True)
class Allocated:
    """The record of a choice.

    Attributes:
        total: The allowed number of pieces.
        size: The size of the written vocabulary.
        shares: q, the sampling probability of each language.
        sizes: Ordinary pieces of each language; shared pieces count once in the union.
        alp: ALP of each language by its own pieces alone.
        value: Σ q^β ALP by these.
        bound: An upper bound on the value of any choice.
    """

    total: int
    size: int
    language_exponent: float
    capacity_exponent: float
    shares: dict[str, float]
    sizes: dict[str, int]
    alp: dict[str, float]
    value: float
    bound: float

    @classmethod
    def read(cls, directory: Path) -> Allocated:
        """Read the record in a directory. Raises UserError if there is none."""
        try:
            record: dict[str, Any] = json_io.parse_object((directory / RECORD).read_bytes())
            return cls(**record)
        except (OSError, ValueError, TypeError):
            raise UserError(f"contains no readable {RECORD}", where=str(directory)) from None

    def write(self, directory: Path) -> None:
        (directory / RECORD).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
