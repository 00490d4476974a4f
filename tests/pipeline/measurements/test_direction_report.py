"""The drawn matrix of transfer: a shade and a number in each cell, frames, and equal bytes for equal figures."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from subgraft.pipeline.measurements.directions import MatrixRow, plot_transfer_matrix

TESTED = ["de-en", "fr-en"]
ROWS = [MatrixRow("on-german", ("de-en",), (40.0, 0.5)), MatrixRow("on-french", ("fr-en",), (1.0, None))]


def pixels(rows: list[MatrixRow]) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(plot_transfer_matrix(rows, TESTED, "BLEU"))).convert("RGB")).astype(int)


def test_the_darkest_cell_is_that_of_the_highest_score() -> None:
    drawn = pixels(ROWS)
    dark_blue = (np.abs(drawn - [8, 48, 107]) <= 6).all(axis=2)  # the end of the scale
    rows, columns = np.nonzero(dark_blue)
    assert len(rows) > 500
    height, width = dark_blue.shape
    turned = pixels([MatrixRow("on-german", ("de-en",), (0.5, 0.5)), MatrixRow("on-french", ("fr-en",), (1.0, 40.0))])
    others = np.nonzero((np.abs(turned - [8, 48, 107]) <= 6).all(axis=2))
    assert rows.mean() < others[0].mean() and columns.mean() < others[1].mean() < width and others[0].mean() < height


def test_a_row_is_named_by_what_it_was_finetuned_on() -> None:
    assert ROWS[0].label == "on-german (de-en)"
    long = MatrixRow("everything", ("de-en", "fr-en", "es-en"), (1.0, 1.0))
    assert long.label == "everything\n(de-en, fr-en, es-en)"


def test_equal_figures_make_equal_bytes_and_scores_of_zero_can_be_drawn() -> None:
    assert plot_transfer_matrix(ROWS, TESTED, "BLEU") == plot_transfer_matrix(ROWS, TESTED, "BLEU")
    nothing = [MatrixRow("random", ("de-en",), (0.0, 0.0))]
    assert plot_transfer_matrix(nothing, TESTED, "BLEU") != plot_transfer_matrix(ROWS[:1], TESTED, "BLEU")
