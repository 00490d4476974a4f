"""What a plan says its trainings will need, against what they then took."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from small_experiments import finish_steps, perform_step, tiny, written
from subgraft.base.terminal import Terminal
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.runtime import Runtime
from subgraft.experiments.pipeline import Pipeline
from subgraft.orchestration.estimates import estimate
from subgraft.orchestration.estimates.estimate import Estimate, estimates, table
from subgraft.orchestration.execution.plan import make_plan
from subgraft.orchestration.store.events import EVENTS, EventLog, Metrics, Started
from subgraft.orchestration.store.store import Store

CONFIG = tiny(
    corpora="{everyday: {folder: upstream}, law: {folder: downstream}}",
    cleaning="{}",
    upstream="{corpus: everyday, vocabulary: {size: 80, byte_fallback: false}}",
    downstream="{corpus: law, vocabulary: {size: 90, byte_fallback: false}}",
    model="{d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 24, max_positions: 128}",
    pretrain="{epochs: 2, batch_size: 500, precision: fp32, dev_sentences: 2, max_length: 64}",
    generator_training="{max_steps: 3, batch_size: 500, precision: fp32, max_length: 64}",
    finetune="{epochs: 2, batch_size: 400, precision: fp32, dev_sentences: 2, max_length: 64}",
    systems="[{name: mean, initialiser: mean}, {name: patt, initialiser: patt}]",
    evaluation="{}",
)
GPU = Runtime(workers=2, gpus_per_worker=1, zero_stage=2, price_per_device_hour=3.0, device_flops=1e9)


def _estimated(place: Path, runtime: Runtime | None = None, *changes: str) -> dict[str, Estimate]:
    experiment = load(place / "config.yaml", Experiment, changes)
    store = Store(place / "home")
    plan = make_plan(store, [Pipeline(experiment, place).report])
    return {each.step.name: each for each in estimates(store, plan, runtime or Runtime())}


@pytest.fixture(scope="module")
def before_and_after(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Estimate], Store, Pipeline]:
    """An experiment, estimated before anything was made; then one system of it finetuned."""
    place = tmp_path_factory.mktemp("estimated")
    config = written(place, CONFIG)
    before = _estimated(place)
    pipeline = Pipeline(load(config, Experiment, ()), place)
    finish_steps([pipeline.systems[0].finetune], place)
    return place, before, Store(place / "home"), pipeline


def test_parameters_are_foreseen_exactly(
    before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline],
) -> None:
    _, before, store, pipeline = before_and_after
    for step in (pipeline.models.pretrained, pipeline.systems[0].finetune):
        record = store.find(step)
        assert record is not None and before[step.name].parameters.total == record.summary["parameters"]
    assert before["generator patt"].parameters.trained == 6 * 16


def test_nothing_is_invented(before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline]) -> None:
    """Without the text updates are unknown, and without anything measured or given the hours."""
    _, before, _, _ = before_and_after
    assert before["pretrain on everyday"].workload.updates is None
    assert before["generator patt"].workload.updates == 3
    assert all(each.update_time is None and each.device_hours is None for each in before.values())


def test_updates_and_hours_once_something_like_it_was_made(
    before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline],
) -> None:
    """Another seed of a finetuning: as many updates, each as long."""
    place, _, store, pipeline = before_and_after
    done = store.find(pipeline.systems[0].finetune)
    assert done is not None
    after = _estimated(place, Runtime(price_per_device_hour=2.0), "seeds=[1, 2]")
    other = after["finetune mean seed 2"]
    assert "finetune mean seed 1" not in after
    assert other.workload.updates == done.summary["steps"]
    seconds = done.summary["training_seconds"]
    assert other.update_time is not None and other.update_time.source == "measured on 1 like it"
    assert other.device_hours == pytest.approx(seconds / 3600)
    # Nothing was made on a GPU.
    assert _estimated(place, Runtime(gpus_per_worker=1), "seeds=[1, 2]")["finetune mean seed 2"].update_time is None
    # Batches in tokens are counted in a sample of the text: here it is all of it.
    pretrained = store.find(pipeline.models.pretrained)
    again = _estimated(place, None, "upstream.seed=2")["pretrain on everyday"]
    assert pretrained is not None and again.workload.updates == pretrained.summary["steps"]


def test_the_time_of_an_update_is_of_the_precision_that_auto_chooses(
    before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline],
) -> None:
    place, _, store, _ = before_and_after

    def known(precision: str) -> str | None:
        pace = _estimated(place, None, "seeds=[7]", f"finetune.precision={precision}")[
            "finetune mean seed 7"
        ].update_time
        return None if pace is None else pace.source

    assert (known("fp32"), known("bf16"), known("auto")) == ("measured on 1 like it", None, None)
    auto = Pipeline(load(place / "config.yaml", Experiment, ["finetune.precision=auto"]), place).systems[0].finetune
    perform_step(auto, place / "home")
    record = store.find(auto)
    assert record is not None
    chosen, counts = record.summary["precision"]["chosen"], {"fp32": 1, "bf16": 0}
    counts[chosen] += 1
    for precision, count in counts.items():
        assert known(precision) == (f"measured on {count} like it" if count else None)
    assert known("auto") == f"measured on {counts[chosen]} like it, in {chosen}"


def test_updates_on_some_of_the_pairs_are_foreseen(
    before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline],
) -> None:
    place, _, store, whole = before_and_after
    changes = ["finetune.max_train_examples=20"]
    expected = _estimated(place, None, *changes)["finetune mean seed 1"].workload.updates
    step = Pipeline(load(place / "config.yaml", Experiment, changes), place).systems[0].finetune
    assert step.inputs["model"].fingerprint == whole.systems[0].finetune.inputs["model"].fingerprint, (
        "the same vocabulary"
    )
    perform_step(step, place / "home")
    made, other = store.find(step), store.find(whole.systems[0].finetune)
    assert made is not None and other is not None
    assert made.summary["steps"] == expected < other.summary["steps"]


def test_arithmetic_where_nothing_was_measured(
    before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline],
) -> None:
    place, _, _, _ = before_and_after
    estimated = _estimated(place, GPU)["generator patt"]
    assert estimated.update_time is not None
    assert estimated.update_time.seconds == pytest.approx(6 * estimated.parameters.total * 500 / (2 * 1e9))
    assert estimated.device_hours == pytest.approx(3 * estimated.update_time.seconds * 2 / 3600)
    console = Terminal(width=200, record=True, file=(place / "printed").open("w"))
    console.print(table([estimated], GPU))
    line = console.export_text().splitlines()[1]
    assert f"{3.0 * (estimated.device_hours or 0):.2f} USD" in line and "runtime.device_flops" in line


def test_trainings_that_need_the_same_are_one_row_and_all_have_a_total(
    before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline],
) -> None:
    place, _, _, _ = before_and_after
    estimated = _estimated(place, GPU, "seeds=[1, 2, 3]", "finetune.learning_rate=2.0e-3")
    finetunings = [each for name, each in estimated.items() if name.startswith("finetune mean")]
    assert len(finetunings) == 3 and "finetune patt seed 2" in estimated
    out = io.StringIO()
    Terminal(width=80, file=out).print(table(list(estimated.values()), GPU))
    shown = out.getvalue()
    assert shown.count("finetune mean") == 1 and "finetune mean, patt, seeds 1, 2, 3" in shown
    memory = " ".join(f"{size / 2**30:.2f}" for size in finetunings[0].memory.values())
    assert f"GiB: {memory} ·" in shown, "in one line"
    hours = sum(each.device_hours or 0 for each in estimated.values())
    total = shown[shown.index(f"total of {len(estimated)} trainings") :]
    assert f"device-hours: {hours:.2f} · cost: {3.0 * hours:.2f} USD" in total


def test_a_stopped_step_has_its_own_measured_time_of_an_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline]
) -> None:
    _, before, _, _ = before_and_after
    log_time = iter([100.0, 101.0, 103.0, 107.0, 109.0])
    monkeypatch.setattr("subgraft.orchestration.store.events.time.time", lambda: next(log_time))
    other = before["generator patt"]
    store = Store(tmp_path)
    store.work(other.step).mkdir(parents=True)
    log = EventLog(store.work(other.step) / EVENTS)
    log.append(Started())
    log.append(Metrics(1, {"train_loss": 1.0}))
    log.append(Metrics(2, {"train_loss": 1.0}))
    log.append(Metrics(2, {"dev_bleu": 1.0}))
    log.append(Metrics(4, {"train_loss": 1.0}))
    estimated = estimate.update_time_of(store, other.step, Runtime(), other.parameters, 500)
    assert estimated == estimate.UpdateTime(8 / 3, "measured before it was stopped")


def test_new_rows_are_an_upper_bound_until_vocabularies_are_known(
    before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline],
) -> None:
    place, _, _, _ = before_and_after
    name, change = "finetune mean seed 1", "finetune.train=new-rows"
    known = _estimated(place, None, change)[name]
    unknown = _estimated(place, None, change, "downstream.vocabulary.size=91")[name]
    assert known.exact and not unknown.exact and unknown.parameters.trained > known.parameters.trained
    printed = io.StringIO()
    for each in (known, unknown):
        Console(file=printed, width=200).print(table([each], Runtime()))
    assert f" {known.parameters.trained:,} " in printed.getvalue()
    assert printed.getvalue().count("at most") == 1 and f"at most {unknown.parameters.trained:,}" in printed.getvalue()


def test_embeddings_that_are_learned_are_those_of_new_tokens(
    before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline],
) -> None:
    """An extension by 50 subwords trains 50 embeddings, not those of its 130 tokens."""
    place, _, _, _ = before_and_after
    methods = ("token-distillation", "attention-influence", "likelihood-matching", "vocadt")
    systems = ", ".join(f"{{name: {method}, initialiser: {method}}}" for method in methods)
    settings = "max_steps: 2, batch_size: 400, precision: fp32, max_length: 64"
    groups = [f"{method.replace('-', '_')}_training={{{settings}}}" for method in methods]
    extension = [f"downstream.vocabulary.{each}" for each in ("mode=extend", "size=50", "min_count=1")]
    planned = _estimated(place, None, f"systems=[{systems}]", *groups, *extension)
    trained = {name: each.parameters.trained for name, each in planned.items() if "finetune" not in name}
    assert trained == {
        "token distillation": 50 * 16,
        "attention influence": 50 * 16,
        "likelihood matching from mean": 50 * (16 + 1),
        "vocadt": 50 * 80,
    }


@pytest.mark.parametrize("train", ["new-rows", "body", "adapters"])
def test_what_is_trained_is_foreseen(
    before_and_after: tuple[Path, dict[str, Estimate], Store, Pipeline], tmp_path: Path, train: str
) -> None:
    """Once vocabularies are known, to the number; and what is not trained takes no gradient and no optimizer state."""
    place, _, _, _ = before_and_after
    change = f"finetune.train={train}"
    name = "finetune mean seed 1"
    estimated = _estimated(place, None, change)[name]
    waiting = _estimated(place, Runtime(checkpoints_in_background=False), change)[name]
    assert estimated.memory[0] - waiting.memory[0] == 12 * estimated.parameters.trained, (
        "parameters and moments, copied"
    )
    step = Pipeline(load(place / "config.yaml", Experiment, [change]), place).systems[0].finetune
    perform_step(step, place / "home")
    record = Store(place / "home").find(step)
    assert (
        record is not None and estimated.parameters.trained == record.summary["trained_parameters"] and estimated.exact
    )
    whole = _estimated(place, None, "finetune.max_steps=3")[name]
    assert estimated.parameters.trained < whole.parameters.trained and estimated.memory[0] < whole.memory[0]
