"""Entities, precision, recall and F1 equal seqeval's in its default mode."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

from label_metric_scores import label_scores
from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.labelled import LABEL_METRICS, metrics_for
from subgraft.evaluation.metrics.tags import entities

LABELS = ["O", *(f"{prefix}-{kind}" for kind in ("PER", "LOC", "MISC-x") for prefix in "BIES")]
TWO_LETTERS = [tag for tag in LABELS if tag[0] in "OBI"]


def invented(generator: random.Random, tags: list[str]) -> tuple[list[list[str]], list[list[str]]]:
    """Tags of up to six sentences, of which some are empty, and predictions that share many of them."""
    references = [generator.choices(tags, k=generator.randrange(9)) for _ in range(generator.randint(1, 6))]
    predictions = [[generator.choice(tags) if generator.random() < 0.3 else tag for tag in one] for one in references]
    return predictions, references


@pytest.mark.parametrize("tags", [LABELS, TWO_LETTERS, ["B", "I", "O"]], ids=["IOBES", "IOB", "without types"])
def test_scores_are_those_of_seqeval(tags: list[str]) -> None:
    seqeval = pytest.importorskip("seqeval.metrics", reason="needs the extra: pip install 'subgraft[dev]'")
    generator = random.Random(1)
    functions = {
        "entity F1": seqeval.f1_score,
        "entity precision": seqeval.precision_score,
        "entity recall": seqeval.recall_score,
        "tag accuracy": seqeval.accuracy_score,
    }
    names = [*functions, "entity F1 macro"]
    assert set(names) == set(metrics_for("tags"))
    compared = 0
    while compared < 1000:
        predictions, references = invented(generator, tags)
        if not any(references):
            continue
        compared += 1
        scores = label_scores([LABEL_METRICS[name] for name in names], predictions, references, tags)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scores without any entity
            expected = {name: 100 * function(references, predictions) for name, function in functions.items()}
            if any(tag != "O" for side in (predictions, references) for one in side for tag in one):
                # Without any entity seqeval takes a mean of nothing.
                expected["entity F1 macro"] = 100 * seqeval.f1_score(references, predictions, average="macro")
            else:
                expected["entity F1 macro"] = 0.0
        assert {name: score.value for name, score in scores.items()} == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-A I-A O B-A", {("A", 0, 1), ("A", 3, 3)}),
        ("I-A I-A B-A", {("A", 0, 1), ("A", 2, 2)}),  # IOB1: B only where an entity touches another
        ("B-A E-A S-B", {("A", 0, 1), ("B", 2, 2)}),
        ("B-A L-A U-B", {("A", 0, 1), ("B", 2, 2)}),  # BILOU names the same
        ("O I-A E-A I-A", {("A", 1, 2), ("A", 3, 3)}),  # an I may begin an entity
        ("B-A I-B", {("A", 0, 0), ("B", 1, 1)}),  # a change of type ends one
        ("O O", set()),
        ("", set()),
    ],
)
def test_entities_by_hand(tags: str, expected: set[tuple[str, int, int]]) -> None:
    assert entities(tags.split()) == expected


def test_sentences_do_not_share_an_entity() -> None:
    metric = LABEL_METRICS["entity F1"]
    statistics = metric.statistics([["I-A"], ["I-A"]], [["I-A"], ["O"]], ["I-A", "O"])
    assert statistics.tolist() == [[1, 1, 1], [0, 1, 0]]
    assert metric.score(statistics.sum(axis=0)) == pytest.approx(100 * 2 / 3)


def test_tags_that_mark_no_entity_are_refused_by_name() -> None:
    with pytest.raises(UserError, match="the tag 'NN' marks no entity"):
        LABEL_METRICS["entity F1"].statistics([["NN"]], [["O"]])
    assert LABEL_METRICS["tag accuracy"].statistics([["NN", "VB"]], [["NN", "DT"]]).tolist() == [[1, 2]]


def test_entities_of_a_type_that_no_label_has_are_errors() -> None:
    predictions, references = [["B-LOC", "O"]], [["B-LOC", "B-ORG"]]
    scores = {
        name: LABEL_METRICS[name].score(LABEL_METRICS[name].statistics(predictions, references, LABELS).sum(axis=0))
        for name in ("entity F1", "entity F1 macro", "tag accuracy")
    }
    assert scores == pytest.approx({"entity F1": 200 / 3, "entity F1 macro": 50, "tag accuracy": 50})


def test_sentences_of_unequal_length_are_refused() -> None:
    for name in metrics_for("tags"):
        with pytest.raises(UserError, match="sentence 2 has 2 tags, but 1 were predicted"):
            LABEL_METRICS[name].statistics([["O"], ["O"]], [["O"], ["O", "O"]], ["O", "B-A"])


def test_statistics_have_columns_for_all_types_of_the_labels() -> None:
    counts = LABEL_METRICS["entity F1 macro"].statistics([["O"]], [["B-LOC"]], LABELS)
    # LOC, MISC-x and PER: right, predicted, wanted.
    np.testing.assert_array_equal(counts, [[0, 0, 1, 0, 0, 0, 0, 0, 0]])
