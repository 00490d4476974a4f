"""Shared parts of all plots: style, bars, labels that do not overlap, colours of systems, and PNG bytes."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Arguments = ParamSpec("Arguments")
# The width of a plot for a narrow screen in inches, and its number of columns of small panels.
_NARROW_WIDTH, _NARROW_COLUMNS = 4.2, 2
_NARROW_NAME = 18  # characters of a line of a row's name
_narrow: ContextVar[bool] = ContextVar("narrow", default=False)
SMALL = 8.5  # points, of labels in a plot
_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.parse_math": False,  # names may have dollars
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#9aa1ac",
    "axes.labelcolor": "#4a5260",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e9ee",
    "xtick.color": "#4a5260",
    "ytick.color": "#4a5260",
    "legend.frameon": False,
}
_LINE: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 0, "shrinkB": 2}


class ResponsivePng(bytes):
    """The bytes of a PNG, and of its version for narrow screens, with the panels above one another."""

    narrow: bytes

    def __new__(cls, wide: bytes, narrow: bytes) -> ResponsivePng:
        png = super().__new__(cls, wide)
        png.narrow = narrow
        return png


def for_narrow_screens(draw: Callable[Arguments, bytes]) -> Callable[Arguments, ResponsivePng]:
    """Draw a plot for wide and for narrow screens; `new_figure` and `side_by_side` adapt to each."""

    @wraps(draw)
    def wrapper(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> ResponsivePng:
        wide = draw(*arguments, **keywords)
        token = _narrow.set(True)
        try:
            return ResponsivePng(wide, draw(*arguments, **keywords))
        finally:
            _narrow.reset(token)

    return wrapper


def side_by_side(figure: Figure, count: int, **options: Any) -> Any:
    """An array of axes: panels in a row, or in a column for a narrow screen."""
    if not _narrow.get():
        return figure.subplots(1, count, squeeze=False, **options)[0]
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height * count)
    return figure.subplots(count, 1, squeeze=False, **options)[:, 0]


def max_columns(columns: int) -> int:
    """The largest number of columns of small panels: `columns`, or fewer on a narrow screen."""
    return min(columns, _NARROW_COLUMNS) if _narrow.get() else columns


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """An empty figure in the report's style, measured in inches."""
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """Notebooks show it whatever the backend; matplotlib's own only after `%matplotlib inline`."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=100)
            return buffer.getvalue()

    # Ignore `matplotlibrc`, which matplotlib also reads in the current directory: it could run LaTeX.
    with style.context(("default", _STYLE)):
        width = min(width, _NARROW_WIDTH) if _narrow.get() else width
        figure = NotebookFigure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure


def png(figure: Figure) -> bytes:
    """The figure as a PNG of 150 pixels an inch; equal figures make equal bytes."""
    buffer = io.BytesIO()
    # Without matplotlib's version in it, equal data makes equal bytes.
    figure.savefig(buffer, format="png", dpi=150, metadata={"Software": None})
    return buffer.getvalue()


def bars(
    panel: Axes, names: Sequence[str], values: Sequence[float], labels: Sequence[str], colours: str | Sequence[str]
) -> None:
    """Horizontal bars from top to bottom, each with a label at its end."""
    containers = panel.barh(range(len(names)), values, color=colours, height=0.62)
    panel.bar_label(containers, labels=labels, padding=3, fontsize=SMALL)
    name_rows(panel, names)


def name_rows(panel: Axes, names: Sequence[str]) -> None:
    """Names from top to bottom along the panel's left side."""
    # A long name would leave no space for the panel.
    width = _NARROW_NAME if _narrow.get() else 2 * _NARROW_NAME
    lines = (textwrap.wrap(name, width, max_lines=2, placeholder="…") for name in names)
    panel.set_yticks(range(len(names)), ["\n".join(each) for each in lines])
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.tick_params(axis="y", length=0)
    panel.grid(axis="y", visible=False)


@dataclass(frozen=True)
class Label:
    """A label of a point of a panel, in data coordinates."""

    x: float
    y: float
    text: str
    colour: str
    strong: bool = False


Box = tuple[float, float, float, float]  # left, bottom, right, top


def label_ends(panel: Axes, labels: Sequence[Label], height: float) -> None:
    """Draw labels in the right margin, each as near to the height of its point as the other labels allow.

    Args:
        panel: Its horizontal limits must be final; its vertical limits are fixed here.
        labels: Of the points.
        height: The approximate height of the panel in inches.
    """
    low, high = panel.get_ylim()
    panel.set_ylim(low, high)
    gap = 1.35 * SMALL / 72 / height
    ordered = sorted(labels, key=lambda label: label.y)
    targets = [(label.y - low) / (high - low) for label in ordered]
    for label, position in zip(ordered, spread(targets, gap), strict=True):
        panel.annotate(
            label.text,
            (label.x, label.y),
            (1.035, position),
            textcoords="axes fraction",
            va="center",
            fontsize=SMALL,
            color=label.colour,
            weight="bold" if label.strong else "normal",
            arrowprops={**_LINE, "color": label.colour, "relpos": (0, 0.5)},
            annotation_clip=False,
        )


def spread(targets: Sequence[float], gap: float) -> list[float]:
    """Rising positions in 0 to 1, at least a gap apart, as near as possible to the rising target positions.

    Neighbours that are closer than the gap form a run around their mean position.
    """
    # Of each run: the sum of the first positions that its members' targets imply, and the number of members.
    runs: list[list[float]] = []
    for index, target in enumerate(targets):
        runs.append([target - index * gap, 1])
        while len(runs) > 1 and runs[-2][0] / runs[-2][1] > runs[-1][0] / runs[-1][1]:
            total, members = runs.pop()
            runs[-1] = [runs[-1][0] + total, runs[-1][1] + members]
    firsts = [total / members for total, members in runs for _ in range(int(members))]
    max_first = 1 - (len(targets) - 1) * gap  # the highest first position with which the last one is within 1
    return [max(0.0, min(first, max_first)) + index * gap for index, first in enumerate(firsts)]


def label_points(panel: Axes, labels: Sequence[Label]) -> None:
    """Draw each label next to its point without covering labels or points, with a line if it is far away."""
    figure = panel.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    scale = 72 / figure.dpi
    points = [tuple(scale * panel.transData.transform((label.x, label.y))) for label in labels]
    frame = tuple(scale * edge for edge in panel.bbox.extents)
    occupied: list[Box] = [(x - 3, y - 3, x + 3, y + 3) for x, y in points]
    # Strong labels choose first.
    for index in sorted(range(len(labels)), key=lambda index: not labels[index].strong):
        label, (x, y) = labels[index], points[index]
        width, height = _text_size(panel, label, scale)
        candidates = list(_candidate_boxes(x, y, width, height))
        _, _, box = min((_conflict_area(box, occupied, frame), rank, box) for rank, box in enumerate(candidates))
        occupied.append(box)
        _annotate(panel, label, (box[0] - x, box[1] - y), box not in candidates[:8])


def _text_size(panel: Axes, label: Label, scale: float) -> tuple[float, float]:
    """Width and height in points."""
    artist = panel.text(0, 0, label.text, fontsize=SMALL, weight="bold" if label.strong else "normal")
    extent = artist.get_window_extent()
    artist.remove()
    return scale * extent.width, scale * extent.height


def _candidate_boxes(x: float, y: float, width: float, height: float) -> Iterator[Box]:
    """Candidate boxes around a point, in points: near ones first, and of equally near ones those to the right first."""
    for distance in (5, 11, 18, 27, 38, 52, 68, 86):
        for sixteenths in (0, 8, 2, -2, 6, -6, 4, -4, 1, -1, 7, -7, 3, -3, 5, -5):
            horizontal, vertical = math.cos(sixteenths * math.pi / 8), math.sin(sixteenths * math.pi / 8)
            left = x + distance * horizontal + (horizontal - 1) / 2 * width
            bottom = y + distance * vertical + (vertical - 1) / 2 * height
            yield left, bottom, left + width, bottom + height


def _conflict_area(box: Box, occupied: Sequence[Box], frame: Sequence[float]) -> float:
    """The area of a box that covers others or lies outside the frame."""
    width, height = box[2] - box[0], box[3] - box[1]
    outside = width * height - _overlap(box, (frame[0], frame[1], frame[2], frame[3]))
    return round(outside + sum(_overlap(box, other) for other in occupied), 3)


def _overlap(first: Box, second: Box) -> float:
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return max(0.0, width) * max(0.0, height)


def _annotate(panel: Axes, label: Label, offset: tuple[float, float], with_line: bool) -> None:
    from matplotlib.patheffects import withStroke

    panel.annotate(
        label.text,
        (label.x, label.y),
        offset,
        textcoords="offset points",
        fontsize=SMALL,
        color=label.colour,
        weight="bold" if label.strong else "normal",
        va="bottom",
        path_effects=[withStroke(linewidth=2.5, foreground="white")],
        arrowprops={**_LINE, "color": "#9aa1ac"} if with_line else None,
        in_layout=False,
    )


# How a system is drawn: the same in every plot, and distinguishable without full colour vision.
#
# Up to six systems have their own colour and marker. If there are more, some are highlighted and all others are pale
# grey: more than six colours or line styles cannot be distinguished, so lines have labels.

BASELINE_COLOUR = "#4b5058"
OTHER_COLOUR = "#b4bac3"

# Okabe and Ito (2008), without black (text) and yellow (too pale on white).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P")
MOST_COLOURED = len(_COLOURS)


@dataclass(frozen=True)
class Look:
    """How a system is drawn: its colour, its marker, and whether it stands out and is labelled."""

    colour: str
    marker: str
    stands_out: bool

    @property
    def line(self) -> dict[str, Any]:
        """Options of `Axes.plot`."""
        return {"color": self.colour, "marker": self.marker, "linewidth": 1.9 if self.stands_out else 1.0}


def looks(names: Sequence[str], baseline: str | None, highlighted: Collection[str] = ()) -> dict[str, Look]:
    """A look per system, in order. The baseline is dark grey.

    Args:
        names: Of the systems.
        baseline: The name of the baseline, if any.
        highlighted: The systems, six at most, that have a colour if there are more than six.
    """
    others = [name for name in names if name != baseline]
    coloured = others if len(others) <= MOST_COLOURED else [name for name in others if name in highlighted]
    own = {name: Look(colour, marker, True) for name, colour, marker in zip(coloured, _COLOURS, _MARKERS, strict=False)}
    plain, grey = Look(OTHER_COLOUR, "o", False), Look(BASELINE_COLOUR, "X", True)
    return {name: grey if name == baseline else own.get(name, plain) for name in names}
