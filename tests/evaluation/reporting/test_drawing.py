"""Labels stay near what they name and off one another."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.text import Text

from subgraft.evaluation.reporting.drawing import Label, label_points, new_figure, spread


def test_labels_that_have_room_stay_where_they_want_to_be() -> None:
    assert spread([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert spread([], 0.1) == []


def test_labels_that_crowd_share_their_middle() -> None:
    assert spread([0.5, 0.5, 0.5], 0.1) == pytest.approx([0.4, 0.5, 0.6])
    assert spread([0.48, 0.5, 0.8], 0.1) == pytest.approx([0.44, 0.54, 0.8])


def test_labels_stay_inside() -> None:
    assert spread([0.0, 0.01], 0.1) == pytest.approx([0.0, 0.1])
    assert spread([0.99, 1.0], 0.1) == pytest.approx([0.9, 1.0])


def test_a_crowd_of_points_gets_labels_that_do_not_overlap() -> None:
    labels = [Label(i % 5 / 50, i // 5 / 50, f"strategy-{i}", "#000000", i % 7 == 0) for i in range(20)]
    with new_figure(10, 5) as figure:
        panel = figure.subplots()
        panel.set(xlim=(-0.3, 0.4), ylim=(-0.3, 0.4))
        label_points(panel, labels)
        figure.draw_without_rendering()
        boxes = [Text.get_window_extent(text) for text in panel.texts]  # without the line to its point
        assert sorted(text.get_text() for text in panel.texts) == sorted(label.text for label in labels)
        assert all(panel.bbox.contains(box.x0, box.y0) and panel.bbox.contains(box.x1, box.y1) for box in boxes)
    covered = [pair for pair in combinations(boxes, 2) if _common(*pair) > 6]
    assert not covered


def _common(one: object, other: object) -> float:
    from matplotlib.transforms import Bbox

    assert isinstance(one, Bbox) and isinstance(other, Bbox)
    shared = Bbox.intersection(one, other)
    return 0.0 if shared is None else shared.width * shared.height


DRAWS = """
import sys
from pathlib import Path
from subgraft.evaluation.reporting.drawing import new_figure, png
with new_figure(2, 1) as figure:
    figure.subplots().plot([1, 2], [3, 4])
    Path(sys.argv[1]).write_bytes(png(figure))
"""


def test_a_figure_does_not_obey_a_file_in_the_current_directory(tmp_path: Path) -> None:
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / "matplotlibrc").write_text("text.usetex: True\nfont.size: 40\naxes.facecolor: red\nlines.linewidth: 9\n")
    for folder, name in ((tmp_path, "here.png"), (hostile, "there.png")):
        subprocess.run([sys.executable, "-c", DRAWS, str(tmp_path / name)], cwd=folder, check=True, timeout=300)
    assert (tmp_path / "here.png").read_bytes() == (tmp_path / "there.png").read_bytes()
