"""Learning curves as numbers, from which the script of the page draws them so that a reader can query any point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from subgraft.evaluation.reporting.plots import curve_of, dev_score, system_looks
from subgraft.evaluation.reporting.records import CurvePoint, ReportData, SystemResult

# Lines of a picture are 2 pixels wide: more digits show nothing.
_DIGITS = 4


@dataclass(frozen=True)
class Series:
    """A system's line. points: step, mean over seeds, least, greatest.  strong: whether it stands out."""

    name: str
    colour: str
    strong: bool
    points: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes."""

    title: str
    across: str
    series: tuple[Series, ...]


def learning_panels(data: ReportData) -> tuple[dict[str, object], ...]:
    """What `plots.plot_learning_curves` draws, as JSON holds it."""
    score = dev_score(data)
    wanted: list[tuple[str, Callable[[CurvePoint], float | None]]] = [
        ("Bits per character on dev (low is good)", lambda point: point.dev_bits_per_character),
        (f"{score.name} on dev", score.of),
    ]
    panels = [Panel(title, "finetuning step", tuple(_series(data, value))) for title, value in wanted]
    return tuple(asdict(panel) for panel in panels if any(series.points for series in panel.series))


def _series(data: ReportData, value: Callable[[CurvePoint], float | None]) -> list[Series]:
    return [
        Series(name, look.colour, look.stands_out, _points(data.results(name), value))
        for name, look in system_looks(data).items()
    ]


def _points(
    results: Sequence[SystemResult], value: Callable[[CurvePoint], float | None]
) -> tuple[tuple[float, ...], ...]:
    return tuple((step, *(round(y, _DIGITS) for y in ys)) for step, *ys in curve_of(results, value))
