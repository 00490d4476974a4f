"""Draw the curves of language_model_starts.py: bits per character by characters read, and by processor seconds.

    python benchmarks/draw_language_model_starts.py curves.jsonl OUT.png

A line is one start with one number of new tokens, tied or untied; runs of the same ones are drawn once, the last one.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from subgraft.evaluation.reporting.drawing import new_figure

Points = Sequence[Mapping[str, Any]]


def curves(rows: Points) -> Mapping[tuple[str, int, bool], Points]:
    """The points of each start and number of new tokens, tied or untied, by characters."""
    by_curve: dict[tuple[str, int, bool], dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        by_curve[row["start"], row["new_tokens"], row.get("untied", False)][row["characters"]] = row
    # `own` has new tokens in no point; others have none before an extension.
    return {key: [points[at] for at in sorted(points)] for key, points in by_curve.items() if len(points) > 1}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("curves", type=Path)
    parser.add_argument("out", type=Path)
    settings = parser.parse_args(arguments)
    rows = [json.loads(line) for line in settings.curves.read_text(encoding="utf-8").splitlines()]
    with new_figure(9, 3.6) as figure:
        by_characters, by_seconds = figure.subplots(1, 2, sharey=True)
        for (start, count, untied), points in curves(rows).items():
            name = "the model's own vocabulary" if start == "own" else f"{start}, {count} new tokens"
            name += ", untied" * untied
            style = {"color": "grey" if untied else "black", "linewidth": 2} if start == "own" else {}
            for axes, column, unit in ((by_characters, "characters", 1000), (by_seconds, "seconds", 1)):
                values = [point[column] / unit for point in points]
                axes.plot(values, [point["dev"] for point in points], marker="o", markersize=3, label=name, **style)
        by_characters.set(xlabel="thousand characters read", ylabel="bits per character (dev)")
        by_seconds.set(xlabel="processor seconds, with the preparation of rows")
        by_characters.legend(fontsize=8)
        figure.savefig(settings.out, dpi=130)


if __name__ == "__main__":
    main()
