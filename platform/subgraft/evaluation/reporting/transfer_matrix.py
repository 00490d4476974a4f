"""A matrix of transfer: every system, by what it was finetuned on, and every direction that it was tested on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from subgraft.evaluation.reporting import drawing
from subgraft.evaluation.reporting.numbers import fixed

# The longest row label that a matrix shows in a line.
_WRAPPED = 22
_DARK = 0.6  # of the scale, from which writing is white


@dataclass(frozen=True)
class MatrixRow:
    """A row of the matrix.

    Attributes:
        name: The system.
        trained_on: The directions of its finetuning.
        scores: Its score on each tested direction, in the order of the columns; None where it was not tested.
    """

    name: str
    trained_on: tuple[str, ...]
    scores: tuple[float | None, ...]

    @property
    def label(self) -> str:
        """The name, and what it was finetuned on, below it if both are long."""
        trained = ", ".join(self.trained_on)
        apart = "\n" if len(self.name) + len(trained) > _WRAPPED else " "
        return f"{self.name}{apart}({trained})"


@drawing.for_narrow_screens
def plot_transfer_matrix(rows: Sequence[MatrixRow], tested: Sequence[str], metric: str) -> bytes:
    """Scores as shades of one colour, each written in its cell; directions that a row was trained on have a frame."""
    most = max((score for row in rows for score in row.scores if score is not None), default=0.0) or 1.0
    with drawing.new_figure(2.6 + 0.9 * len(tested), 1.2 + 0.42 * len(rows)) as figure:
        panel = figure.subplots()
        shades = [[score or 0.0 for score in row.scores] for row in rows]
        panel.imshow(shades, cmap="Blues", vmin=0.0, vmax=most, aspect="auto")
        for at, row in enumerate(rows):
            for place, (direction, score) in enumerate(zip(tested, row.scores, strict=True)):
                colour = "white" if (score or 0.0) > _DARK * most else "#2b3340"
                weight = "bold" if direction in row.trained_on else "normal"
                panel.text(
                    place, at, fixed(score, 1), ha="center", va="center", color=colour, weight=weight,
                    fontsize=drawing.SMALL,
                )  # fmt: skip
                if direction in row.trained_on:
                    _frame(panel, place, at)
        panel.set_xticks(range(len(tested)), tested, rotation=40 if len(tested) > 5 else 0)
        panel.set_yticks(range(len(rows)), [row.label for row in rows])
        panel.tick_params(length=0)
        panel.grid(visible=False)
        panel.set(title=f"{metric} on the test set of each direction", xlabel="tested on", ylabel="finetuned (on)")
        return drawing.png(figure)


def _frame(panel: object, place: int, at: int) -> None:
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle

    assert isinstance(panel, Axes)
    panel.add_patch(Rectangle((place - 0.46, at - 0.44), 0.92, 0.88, fill=False, edgecolor="#D55E00", linewidth=1.6))
