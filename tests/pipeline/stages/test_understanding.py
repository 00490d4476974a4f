"""A head is trained on labels, with its model or alone, also after a kill; and its predictions are evaluated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.numpy import load_file as load_arrays
from safetensors.torch import load_file

from labelled import ENGLISH, labelled_corpus
from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.training import AdapterSettings, FinetuneSettings
from subgraft.evaluation.metrics.labelled import label_metric
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.heads import AUTO_CLASSES, head_of
from subgraft.pipeline.compute.evaluate import evaluate_model
from subgraft.pipeline.compute.finetune import run
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.training.context import Json
from subgraft.training.objectives.labelled import LabelledPairsSettings, LabelledSettings
from subgraft.training.objectives.registry import TaskObjectiveSettings, task_objective
from toys import bert, cased_tokenizer
from watched import KilledError, Watched

STEPS = 6


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, tokenizer = tmp_path_factory.mktemp("labels"), cased_tokenizer()
    Bundle(bert(), tokenizer, tokenizer).save(folder / "model")
    for task in ("classification", "tagging", "span-extraction", "ranking"):
        labelled_corpus(task, folder)
    return folder


def finetune(
    place: Path, out: Path, task: str = "classification", die_at: int | None = None, **changed: Any
) -> dict[str, Json]:
    """The summary of a finetuning, or of one that went on where it was killed."""
    base: dict[str, Any] = {"max_steps": STEPS, "batch_size": 300, "max_length": 40, "learning_rate": 0.01}
    base |= {"warmup_steps": 1, "label_smoothing": 0.0, "select": "score", "evaluations_per_epoch": 2}
    recipe = FinetuneStage(
        languages=ENGLISH, training=FinetuneSettings(**base | changed), seed=1, objective=task_objective(task)
    )
    inputs = {"model": place / "model", "corpus": place / task}
    out.mkdir(parents=True)
    if die_at is not None:
        with pytest.raises(KilledError):
            run(recipe, inputs, out, Watched(out.parent / f"{out.name}-work", die_at))
    return dict(run(recipe, inputs, out, Watched(out.parent / f"{out.name}-work", None)))


def test_training_goes_on_after_a_kill_to_the_same_bytes(place: Path, tmp_path: Path) -> None:
    summary = finetune(place, tmp_path / "whole", select="last")
    finetune(place, tmp_path / "killed", die_at=4, select="last")
    assert (tmp_path / "whole" / "model.safetensors").read_bytes() == (
        tmp_path / "killed" / "model.safetensors"
    ).read_bytes()
    curve = json.loads((tmp_path / "whole" / "curve.json").read_text())
    assert curve[0]["step"] == 0 and {"score", "nats"} == set(curve[0]["values"])
    assert curve[-1]["values"]["nats"] < curve[0]["values"]["nats"] and summary["cut_pairs"] == 0


@pytest.mark.parametrize("train", ["head", "adapters"])
def test_a_body_that_is_frozen_stays_to_the_byte(place: Path, tmp_path: Path, train: Any) -> None:
    adapters: dict[str, Any] = {"adapters": AdapterSettings(rank=2)} if train == "adapters" else {}
    summary = finetune(place, tmp_path / "out", train=train, select="last", **adapters)
    before, after = load_file(place / "model" / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    changed = {name for name in before if name in after and not torch.equal(before[name], after[name])}
    assert bool(changed) == (train == "adapters") and all(".layer." in name for name in changed)
    trained, everything = summary["trained_parameters"], summary["parameters"]
    assert isinstance(trained, int) and isinstance(everything, int) and 0 < trained < everything / 2
    start = json.loads((tmp_path / "out" / "curve.json").read_text())[0]["values"]["nats"]
    assert json.loads((tmp_path / "out" / "curve.json").read_text())[-1]["values"]["nats"] < start


@pytest.mark.parametrize("task", ["classification", "tagging", "span-extraction", "ranking"])
def test_an_evaluation_has_scores_statistics_and_predictions(place: Path, tmp_path: Path, task: str) -> None:
    finetune(place, tmp_path / "model", task)
    objective: TaskObjectiveSettings = task_objective(task)
    assert isinstance(objective, LabelledSettings | LabelledPairsSettings)
    settings = MeasurementSettings(speed_sentences=4, speed_repeats=1, calibration=False)
    recipe = EvaluateStage(languages=ENGLISH, evaluation=settings, objective=objective)
    (tmp_path / "out").mkdir()
    inputs = {"model": tmp_path / "model", "corpus": place / task}
    summary = evaluate_model(recipe, inputs, tmp_path / "out", Watched(tmp_path / "work", None))
    result = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    statistics = load_arrays(tmp_path / "out" / "statistics.safetensors")
    for name, score in result["scores"].items():
        assert summary[name] == score["value"]
        whole = float(label_metric(name).score(statistics[name].sum(axis=0)))
        assert score["value"] == pytest.approx(whole) and len(statistics[name]) == result["sentences"]
    texts = [
        (tmp_path / "out" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        for name in ("sources", "references", "hypotheses")
    ]
    assert {len(lines) for lines in texts} == {result["sentences"]}
    if task == "classification":
        right = np.mean([wanted == predicted for wanted, predicted in zip(*texts[1:], strict=True)])
        assert result["scores"]["accuracy"]["value"] == pytest.approx(100 * float(right))
        assert np.trace(result["confusion"]["counts"]) == round(float(right) * result["sentences"])
        assert result["calibration"]["tokens"] == result["sentences"]
    head = head_of(Bundle.load(tmp_path / "model").model)
    assert head is not None
    auto = getattr(transformers, AUTO_CLASSES[head.kind])
    assert auto.from_pretrained(tmp_path / "model").config.num_labels == len(head.labels)
