"""Plots of an allocation: what languages got, and where on their curves that is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from subgraft.subwords.allocation.curve import Curve
from subgraft.evaluation.reporting.drawing import SMALL, across, drawing, for_narrow_screens, png

_ACROSS = 6
_LINE, _CHOSEN = "#0072B2", "#D55E00"
_CLASSES = ("#56B4E9", "#0072B2", "#4b5058")


def plot_shares(sizes: Mapping[str, int], classes: Mapping[str, Sequence[str]]) -> bytes:
    """A bar for each language, those with least text on top, coloured by resource class."""
    ranked = [language for languages in classes.values() for language in languages]
    with drawing(7, 0.8 + 0.19 * len(ranked)) as figure:
        panel = figure.add_subplot()
        for colour, (name, languages) in zip(_CLASSES, classes.items(), strict=True):
            places = [ranked.index(language) for language in languages]
            panel.barh(places, [sizes[language] for language in languages], color=colour, label=name)
        panel.set_yticks(range(len(ranked)), ranked, fontsize=SMALL)
        panel.margins(y=0.01)
        panel.invert_yaxis()
        panel.set_xlabel("subwords")
        panel.legend(title="text", loc="upper right")
        return png(figure)


@for_narrow_screens
def plot_curves(curves: Mapping[str, Curve], sizes: Mapping[str, int]) -> bytes:
    """A panel for each language: ALP over size in thousands, a ring at the chosen size, a dashed line at a limit."""
    columns = min(len(curves), across(_ACROSS))
    down = math.ceil(len(curves) / columns)
    with drawing(max(4.0, 1.9 * columns), 0.5 + 1.5 * down) as figure:
        panels = figure.subplots(down, columns, squeeze=False).ravel()
        for panel, (language, curve) in zip(panels, curves.items(), strict=False):
            thousands = [size / 1000 for size in curve.sizes]
            panel.plot(thousands, curve.alp, color=_LINE, marker=".", markersize=3, linewidth=1)
            at = curve.sizes.index(sizes[language])
            panel.plot([thousands[at]], [curve.alp[at]], "o", color=_CHOSEN, fillstyle="none", markersize=8)
            if curve.limit is not None:
                panel.axvline(curve.limit / 1000, color="#9aa1ac", linewidth=0.8, linestyle="--")
            panel.set_title(language, fontsize=SMALL)
            panel.tick_params(labelsize=7)
        for panel in panels[len(curves) :]:
            panel.set_visible(False)
        figure.supxlabel("thousands of subwords", fontsize=9.5, color="#4a5260")
        figure.supylabel("ALP", fontsize=9.5, color="#4a5260")
        return png(figure)
