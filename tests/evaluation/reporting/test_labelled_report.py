"""The report on predicted labels: its tables, pictures and errors, for classes, answers and numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.classes import class_calibration, confusion
from subgraft.evaluation.metrics.labelled import label_metric, label_score
from subgraft.evaluation.reporting.document import Document, Section, write_document
from subgraft.evaluation.reporting.records import ReportData, SelectedScore, SystemResult
from subgraft.evaluation.reporting.results import SCORES
from subgraft.evaluation.reporting.table import Table
from subgraft.evaluation.reporting.understanding import (
    Labelled,
    build_labelled_document,
    labelled_answer,
    labelled_table,
    plot_confusion,
)
from subgraft.pipeline.measurements import registry

LABELS = ("bad", "good | fair", "<so-so> $1 or $2")
COUNT = 90


def system(data: ReportData, name: str, seed: int, predicted: Any, references: Any, **more: Any) -> SystemResult:
    """A result in place of one of `data`, which has the curve, costs and speed."""
    metrics, texts = more.pop("metrics"), more.pop("texts")
    labels = more.pop("labels", ())
    statistics = {each: label_metric(each).statistics(predicted, references, labels) for each in metrics}
    scores = {each: label_score(label_metric(each), counts) for each, counts in statistics.items()}
    curve = tuple(
        replace(point, dev_bits_per_character=None, dev_bleu=None, score=50.0 + place, nats=1.0 / (1 + place))
        for place, point in enumerate(data.systems[0].curve)
    )
    fields: dict[str, Any] = {
        "name": name,
        "seed": seed,
        "hypotheses": tuple(texts),
        "scores": scores,
        "statistics": statistics,
        "dev": SelectedScore(metrics[0], scores[metrics[0]].value),
    }
    return replace(data.systems[0], **fields, curve=curve, measurements=(), **more)


@pytest.fixture
def classes(report_data: ReportData) -> ReportData:
    generator = np.random.default_rng(3)
    wanted = generator.integers(0, 3, COUNT)

    def result(name: str, seed: int, share: float) -> SystemResult:
        draw = np.random.default_rng([seed, len(name)])
        predicted = np.where(draw.random(COUNT) < share, wanted, draw.integers(0, 3, COUNT))
        probabilities = np.full((COUNT, 3), 0.1)
        probabilities[np.arange(COUNT), predicted] = 0.8
        calibrated = class_calibration(probabilities, wanted.tolist())
        made = system(
            report_data,
            name,
            seed,
            predicted,
            wanted,
            metrics=("accuracy", "F1 macro", "MCC"),
            texts=[LABELS[place] for place in predicted],
            labels=LABELS,
        )
        predictions = Labelled(LABELS, confusion(predicted, wanted, 3), probabilities.max(axis=1))
        return replace(made, measurements=(predictions, calibrated))

    systems = tuple(
        result(name, seed, share) for name, share in (("old", 0.5), ("mean", 0.6), ("ours", 0.9)) for seed in (1, 2, 3)
    )
    return _of(report_data, systems, [LABELS[place] for place in wanted])


def _of(data: ReportData, systems: Sequence[SystemResult], references: Sequence[str]) -> ReportData:
    sources = tuple(f"example {place}" for place in range(len(references)))
    named: dict[str, Any] = {
        "sources": sources,
        "references": tuple(references),
        "systems": tuple(systems),
        "baseline": "old",
    }
    return replace(data, **named, select="score")


def section(data: ReportData, title: str) -> Section:
    return next(each for each in document_of(data).sections if each.title == title)


def document_of(data: ReportData) -> Document:
    return build_labelled_document(data, labelled_answer(data), registry.measured(data, "labels"))


def errors(data: ReportData) -> Table:
    (block,) = section(data, "Errors").blocks
    assert isinstance(block, Table)
    return block


def texts_of(shown: Table) -> list[str]:
    return ["".join(span.text for span in row[0]) for row in shown.rows]


def test_a_report_on_classes_has_its_tables_pictures_and_errors(classes: ReportData, tmp_path: Path) -> None:
    write_document(document_of(classes), tmp_path)
    page, markdown = ((tmp_path / f"report.{form}").read_text(encoding="utf-8") for form in ("html", "md"))
    assert "<so-so>" not in page and "&lt;so-so&gt;" in page and "good \\| fair" in markdown
    assert {path.stem for path in (tmp_path / "plots").glob("*.png")} >= {
        "confusion",
        "reliability",
        "learning_curves",
    }
    assert markdown.index("**Take ours, which scores better than old: accuracy +") < markdown.index("plots/scores.png")
    for text in ("accuracy", "F1 macro", "MCC", "examples per second"):
        assert text in markdown
    assert "Loss on dev, in nats per label" in page
    assert "BLEU on dev" not in page and "Bits per character on dev" not in page


def test_the_main_table_has_the_first_metric_by_seed_and_the_next(classes: ReportData) -> None:
    shown = labelled_table(classes)
    assert [row[0] for row in shown.rows] == ["old", "mean", "ours"]
    assert shown.headings[1:5] == ("accuracy\nseed 1", "accuracy\nseed 2", "accuracy\nseed 3", "accuracy")
    assert "F1 macro" in shown.headings and "MCC" not in shown.headings
    accuracy = classes.systems[-3].scores["accuracy"].value
    assert shown.rows[2][1] == f"{accuracy:.2f}" and shown.rows[0][5:7] == ("–", "–")


def test_the_errors_are_of_the_best_other_system_the_surest_first(classes: ReportData) -> None:
    shown, best = errors(classes), classes.systems[6]
    wrong = [place for place in range(COUNT) if best.hypotheses[place] != classes.references[place]]
    assert best.name == "ours" and f"{len(wrong)} of 90" in str(shown.caption)
    assert 0 < len(shown.rows) <= min(12, len(wrong))


def test_an_answer_equal_to_another_reference_is_right(report_data: ReportData) -> None:
    references = [["the town", "town"], ["a friend"], [], ["x"]]
    predicted = ["Town", "the friend", "anything", ""]
    shown = [answers[0] if answers else "no answer" for answers in references]
    made = [
        system(report_data, name, 1, predicted, references, metrics=("token F1", "exact match"), texts=predicted)
        for name in ("old", "ours")
    ]
    table = errors(_of(report_data, made, shown))
    assert texts_of(table) == ["example 2", "example 3"] and "2 of 4" in str(table.caption)
    assert "probability" not in str(table.columns)


def test_numbers_are_listed_by_the_size_of_the_error(report_data: ReportData) -> None:
    references, predicted = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.1, 1.0, 5.0, 2.0])
    made = [
        system(
            report_data,
            name,
            1,
            predicted,
            references,
            metrics=("Pearson", "Spearman", "RMSE"),
            texts=[f"{value:.3f}" for value in predicted],
        )
        for name in ("old", "ours")
    ]
    data = _of(report_data, made, [f"{value:.3f}" for value in references])
    assert texts_of(errors(data)) == ["example 2", "example 3", "example 0"]
    assert "lower is better" in str(section(data, SCORES))
    titles = {each.title for each in document_of(data).sections}
    assert not titles & {"Calibration", "Confused classes"}


def test_names_of_classes_are_drawn_as_they_are(recwarn: pytest.WarningsRecorder) -> None:
    labels = ["$100 and $200", "x_{y", "a\\b$", "a very long name of a class that goes on and on", *map(str, range(21))]
    matrix = np.eye(25, dtype=np.int64)
    drawn = plot_confusion(labels, {"old": matrix, "a long name of a system, which is cut": matrix})
    assert drawn.startswith(b"\x89PNG") and drawn == plot_confusion(
        labels, {"old": matrix, "a long name of a system, which is cut": matrix}
    )
    width, height = (int.from_bytes(drawn[place : place + 4], "big") for place in (16, 20))
    assert width < 3200 and height < 1700
    assert not recwarn.list


def test_no_confusion_is_drawn_of_more_classes_than_can_be_read(classes: ReportData) -> None:
    labels = tuple(f"class {place}" for place in range(41))
    many = replace(
        classes,
        systems=tuple(
            replace(each, measurements=(Labelled(labels, np.eye(41, dtype=np.int64)),)) for each in classes.systems
        ),
    )
    assert "Confused classes" not in {each.title for each in document_of(many).sections}


def test_without_results_there_is_no_report(classes: ReportData) -> None:
    raising: Callable[[ReportData], object] = labelled_table
    with pytest.raises(UserError, match="no results"):
        raising(replace(classes, systems=()))
