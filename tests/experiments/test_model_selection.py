"""Which finetuned model is registered, by dev curves as a finetuning writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from small_experiments import TINY, written
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.training import SelectName
from subgraft.experiments.model_selection import Finetuned, Selection
from subgraft.experiments.pipeline import Pipeline
from subgraft.training.progress import CURVE, selected_weights


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    place = tmp_path_factory.mktemp("experiment")
    return Pipeline(load(written(place, TINY), Experiment, ["seeds=[1, 2]"]), place)


def selected(pipeline: Pipeline, folder: Path, *curves: Sequence[float]) -> Selection:
    return Selection.of(finetuned(pipeline, folder, *curves))


def finetuned(pipeline: Pipeline, folder: Path, *curves: Sequence[float]) -> list[Finetuned]:
    """Plain 1, plain 2, mean 1 and mean 2 with these dev scores, at steps 0, 10, 20 and so on."""
    result = []
    for number, (steps, scores) in enumerate(zip(pipeline.systems, curves, strict=True)):
        curve = [
            {"step": 10 * i, "values": {"bleu": score, "bits_per_character": 2.0}} for i, score in enumerate(scores)
        ]
        (folder / str(number)).mkdir()
        (folder / str(number) / CURVE).write_text(json.dumps(curve))
        result.append(Finetuned(steps, selected_weights(folder / str(number))))
    return result


def test_the_best_on_dev_is_registered(pipeline: Pipeline, tmp_path: Path) -> None:
    result = selected(pipeline, tmp_path, [1, 2, 1], [0, 5, 5], [1, 4, 3], [2, 1, 1])
    assert result.chosen is not None and result.warning is None
    assert (result.chosen.steps.system.name, result.chosen.steps.seed) == ("plain", 2)
    assert (result.chosen.weights.step, result.chosen.weights.bleu) == (10, 5.0)


def test_a_model_that_finetuning_made_worse_is_passed_over_and_named(pipeline: Pipeline, tmp_path: Path) -> None:
    result = selected(pipeline, tmp_path, [1, 2, 1], [2, 1, 1], [9, 4, 3], [2, 1, 3])
    assert result.chosen is not None
    assert (result.chosen.steps.system.name, result.chosen.steps.seed) == ("mean", 2)
    assert result.warning == (
        "best on dev before any training, and therefore not registered: mean, seed 1 (dev BLEU 9.00); "
        "registered is mean, seed 2 (dev BLEU 3.00)"
    )


def test_nothing_is_registered_where_no_finetuning_brought_anything(pipeline: Pipeline, tmp_path: Path) -> None:
    result = selected(pipeline, tmp_path, [1, 1, 1], [2, 1, 1], [0, 0, 0], [2, 1, 0])
    assert result.chosen is None
    assert result.warning is not None and result.warning.startswith("no model is registered: no finetuning reached")


@pytest.mark.parametrize(("select", "system"), [("bleu", "plain"), ("chrf", "mean"), ("likelihood", "mean")])
def test_systems_are_compared_by_what_chose_their_weights(
    select: SelectName, system: str, pipeline: Pipeline, tmp_path: Path
) -> None:
    curves = {"plain": {"bleu": 9.0, "chrf": 20.0, "bits_per_character": 2.0}}
    curves["mean"] = {"bleu": 8.0, "chrf": 25.0, "bits_per_character": 1.5}
    result = []
    for steps in pipeline.systems:
        folder = tmp_path / f"{steps.system.name}-{steps.seed}"
        folder.mkdir()
        (folder / CURVE).write_text(json.dumps([{"step": 10, "values": curves[steps.system.name]}]))
        result.append(Finetuned(steps, selected_weights(folder, select)))
    chosen = Selection.of(result).chosen
    assert chosen is not None and chosen.steps.system.name == system


def test_weights_of_a_training_on_several_tasks_are_registered_where_finetuning_brings_nothing(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    without = selected(pipeline, tmp_path, [3, 1, 1], [2, 1, 1], [1, 0, 0], [2, 1, 0])
    assert without.chosen is None
    trained = [replace(one, on_several_tasks=one.weights.value == 3) for one in without.passed_over]
    with_tasks = Selection.of(trained)
    assert with_tasks.chosen == trained[0] and with_tasks.warning is None
