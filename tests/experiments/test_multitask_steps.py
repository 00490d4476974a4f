"""Systems that are trained on several tasks at once: their steps, settings that do not fit, and a whole experiment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from ruamel.yaml import YAML
from safetensors.torch import load_file

from labelled import ENGLISH, write_files
from small_experiments import finish, planned, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.data.text.corpus import Corpus
from subgraft.experiments.manifest import system_runs
from subgraft.experiments.model_selection import Finetuned, Selection
from subgraft.experiments.steps.system import SystemSteps
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.estimates.estimate import estimates
from subgraft.orchestration.estimates.workload import workload
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.training import MultitaskStage
from subgraft.training.understanding.inputs import TextEncoder
from subgraft.training.understanding.multitask import load_head
from subgraft.training.understanding.objective import head_outputs, task_of
from subgraft.training.understanding.predictor import Predictor

CONFIG = """\
name: tiny
task: classification
languages: {source: en, target: en}
corpora: {everyday: {folder: upstream, languages: [en]}}
upstream: {corpus: everyday, objectives: [{kind: masked}], vocabulary: {kind: wordpiece, size: 120}}
downstream: {corpus: own, vocabulary: {kind: wordpiece, size: 140}}
model: {family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16, max_positions: 64}
pretrain: {epochs: 1, max_steps: 4, batch_size: 500, precision: fp32, max_length: 64}
generator_training: {max_steps: 2, max_length: 64}
multitask: {tasks: {passages: {task: span-extraction, corpus: questions}, words: {task: tagging, corpus: names}}}
multitask_training: {epochs: 2, batch_size: 300, learning_rate: 0.005, precision: fp32, max_length: 64}
finetune: {epochs: 1, batch_size: 300, batch_unit: tokens, precision: fp32, max_length: 64, max_train_examples: 30}
systems:
  - {name: plain, vocabulary: upstream}
  - {name: alone, vocabulary: upstream, multitask: alone}
  - {name: finetuned, vocabulary: upstream, multitask: finetuned}
  - {name: mean, initialiser: mean, multitask: finetuned}
evaluation: {speed_sentences: 2, speed_repeats: 1, bootstrap_samples: 20}
"""
TASKS = {"own": "classification", "questions": "span-extraction", "names": "tagging"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    yaml = YAML(typ="safe")
    whole = yaml.load(CONFIG)
    for name, task in TASKS.items():
        whole["corpora"][name] = write_files(task, tmp_path / name, {"train": 50, "dev": 12, "test": 12})
    path = written(tmp_path, "")
    yaml.dump(whole, path)
    return path


def systems(config: Path, *changes: str) -> dict[str, SystemSteps]:
    made = planned(config, *changes)
    return {steps.system.name: steps for steps in made.systems}


def summary(store: Store, step: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((store.path(step) / "record.json").read_text())["summary"]
    return result


def curve(store: Store, step: Any) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = json.loads((store.path(step) / "curve.json").read_text())
    return result


def test_the_training_stands_between_transfer_and_finetuning_and_is_shared(config: Path) -> None:
    steps = systems(config)
    alone, finetuned, mean = (steps[name] for name in ("alone", "finetuned", "mean"))
    assert isinstance(alone.finetune.stage, MultitaskStage) and alone.multitask is None
    assert finetuned.multitask is not None and mean.multitask is not None and steps["plain"].multitask is None
    assert alone.finetune.fingerprint == finetuned.multitask.fingerprint != mean.multitask.fingerprint
    assert alone.evaluate.inputs["model"] is alone.finetune
    assert set(alone.finetune.inputs) == {"model", "corpus", "corpus/passages", "corpus/words"}
    assert mean.transfer is not None and mean.multitask.inputs["model"] is mean.transfer
    assert finetuned.finetune.stage.keeps_head and not steps["plain"].finetune.stage.keeps_head


@pytest.mark.slow
def test_a_whole_experiment_with_tasks_alone_and_finetuned(config: Path) -> None:
    pipeline, store = finish(config)
    steps = {each.system.name: each for each in pipeline.systems}
    together, finetuned = steps["alone"].finetune, steps["finetuned"].finetune
    made = summary(store, together)
    assert made["examples"] == {"own": 30, "passages": 50, "words": 50}, "finetune.max_train_examples is of the task"
    assert made["dev"].keys() == {*("score", "nats", "passages_score", "passages_nats", "words_score", "words_nats")}
    begun, ended = curve(store, finetuned)[0]["values"], made["dev"]
    assert (begun["score"], begun["nats"]) == (ended["score"], pytest.approx(ended["nats"], abs=1e-6))
    assert curve(store, steps["plain"].finetune)[0]["values"]["nats"] != begun["nats"]
    assert curve(store, together)[0]["values"]["words_nats"] > curve(store, together)[-1]["values"]["words_nats"]
    for each in steps.values():
        scores = json.loads((store.path(each.evaluate) / "evaluation.json").read_text())["scores"]
        assert 0 <= scores["accuracy"]["value"] <= 100
    report = (store.path(pipeline.report) / "report.html").read_text()
    assert all(name in report for name in steps)
    chosen = Selection.of([Finetuned.read(each, store) for each in steps.values()])
    assert chosen.chosen is not None
    assert Finetuned.read(steps["finetuned"], store).on_several_tasks == (made["best_step"] > 0)
    _heads_are_those_of_the_training(store, steps["mean"])
    runs = dict(zip(steps, system_runs(pipeline.systems), strict=True))
    assert runs["finetuned"].params["multitask"]["tasks"].keys() == {"passages", "words"}
    foreseen = workload(store, together).updates
    assert foreseen is not None and foreseen == pytest.approx(made["steps"], rel=0.35)


def _heads_are_those_of_the_training(store: Store, steps: SystemSteps) -> None:
    """The dev scores of another task's head on the saved body are those of the training's end."""
    assert steps.multitask is not None
    directory, recipe = store.path(steps.multitask), steps.multitask.stage
    corpus = Corpus.open(store.path(steps.multitask.inputs[recipe.corpus_of("words")]))
    loaded, task = load_head(directory, "words"), task_of(recipe.tasks["words"], corpus)  # type: ignore[arg-type]
    encoder = TextEncoder.of(Bundle.load(directory), ENGLISH, recipe.training.max_length)
    outputs = head_outputs(loaded.model, task, task.split(corpus, "dev", encoder), encoder.padding)
    assert outputs.nats == pytest.approx(summary(store, steps.multitask)["dev"]["words_nats"], abs=1e-6)


def test_a_plan_shows_the_training_and_foresees_its_updates_in_steps(config: Path, tmp_path: Path) -> None:
    pipeline = planned(config, "multitask_training.max_steps=9")
    store = Store(tmp_path / "home")
    shown = {each.step.name: each for each in estimates(store, make_plan(store, [pipeline.report]), Runtime())}
    assert shown["multitask alone seed 1"].workload.updates in (None, 9)
    assert shown["multitask alone seed 1"].parameters == shown["finetune plain seed 1"].parameters


HEADS = """\
multitask: {tasks: {pairs: {task: pair-classification, corpus: pairs, labels: {head: {kind: san, steps: 3}}}}}
systems:
  - {name: st-dnn, vocabulary: upstream, head: {kind: san}}
  - {name: features, vocabulary: upstream, head: {kind: bilstm, width: 8, concatenated_layers: 1}, train: head}
  - {name: mt-dnn, initialiser: mean, head: {kind: san}, multitask: finetuned}
"""


def test_systems_differ_in_their_heads_which_predict_alone_what_was_evaluated(config: Path) -> None:
    """ST-DNN, a feature-based model and MT-DNN as rows of one comparison."""
    yaml = YAML(typ="safe")
    whole = yaml.load(config) | yaml.load(HEADS) | {"task": "pair-classification"}
    sizes = {"train": 40, "dev": 12, "test": 12}
    whole["corpora"]["own"] = write_files("pair-classification", config.parent / "own-pairs", sizes)
    whole["corpora"]["pairs"] = write_files("pair-classification", config.parent / "pairs", sizes)
    whole["finetune"]["select"] = "last"
    yaml.dump(whole, config)
    pipeline, store = finish(config)
    steps = {each.system.name: each for each in pipeline.systems}
    records = map(json.loads, (config.parent / "own-pairs" / "test.jsonl").read_text().splitlines())
    inputs = [(each["text"], each["second"]) for each in records]
    for name, each in steps.items():
        predictor = Predictor.load(store.path(each.finetune), ENGLISH)
        assert predictor.name == "pair-classification"
        said = (store.path(each.evaluate) / "hypotheses.txt").read_text().splitlines()
        assert [one.text for one in predictor.predict(inputs)] == said, name
    own = {name: load_file(store.path(each.finetune) / "model.safetensors") for name, each in steps.items()}
    assert all(any(key.startswith("own_head.") for key in weights) for weights in own.values())
    before = load_file(store.path(steps["features"].finetune.inputs["model"]) / "model.safetensors")
    body = {key for key in own["features"] if key in before}
    assert body and all(torch.equal(own["features"][key], before[key]) for key in body)
    assert not any(torch.equal(own["st-dnn"][key], before[key]) for key in body if key.endswith("query.weight"))
    made = steps["mt-dnn"].multitask
    assert made is not None and "multitask" not in str(steps["st-dnn"].finetune.stage.model_dump())
    headed = load_head(store.path(made), "pairs").model
    assert headed.config.to_dict()["subgraft_head"]["steps"] == 3


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("labels.head.kind=san", "labels.head san is for pair-classification, not for classification: leave it out"),
        ("systems=[{name: a, vocabulary: upstream, head: {kind: bilstm}}]", "reads 4 layers, and the model has 1"),
    ],
)
def test_a_head_that_the_task_or_the_model_cannot_have_is_refused(config: Path, change: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        assert planned(config, change).report


REFUSED = {
    "multitask.tasks.words.corpus=nothing": "multitask.tasks.words.corpus 'nothing' is not among corpora",
    "multitask.tasks.words.task=translation": "multitask.tasks.words.task translation has no labels: the tasks with",
    "multitask=null": "system alone: multitask: alone needs other tasks: give multitask.tasks",
    "multitask.tasks={own: {task: tagging, corpus: names}}": "multitask.tasks.own: own is the name of the experiment's",
    "multitask_training.select=bleu": "multitask_training.select bleu: labels have no such score",
    "multitask_training.batch_size_schedule=[{step: 2, batch_size: 400}]": "batch_size_schedule: several tasks take",
    "runtime.zero_stage=3": "system alone has multitask, which runtime.zero_stage 3 cannot train: use 2",
    "systems=[{name: a, vocabulary: upstream, multitask: alone, learning_rate: 0.1}]": "applies to finetuning",
}


@pytest.mark.parametrize("change", REFUSED)
def test_settings_that_do_not_fit_are_refused_in_one_message(config: Path, change: str) -> None:
    with pytest.raises(UserError) as caught:
        load(config, Experiment, [change])
    message = str(caught.value)
    assert REFUSED[change] in message and message.count("multitask") >= 1


def test_other_tasks_need_labels_as_well(config: Path) -> None:
    changes = ["task=continuation", "upstream.objectives=[{kind: causal}]", "model={family: gpt2}"]
    with pytest.raises(UserError, match="multitask: alone is for tasks with labels, which continuation is not"):
        load(config, Experiment, changes)


def test_a_task_without_a_dev_split_is_refused(config: Path) -> None:
    (config.parent / "names" / "dev.jsonl").unlink()
    with pytest.raises(UserError, match="the experiment needs its dev split"):
        assert planned(config).report
