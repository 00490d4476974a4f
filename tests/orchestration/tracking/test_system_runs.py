"""One run for a system and seed, with settings, curve and scores together, as a real MLflow server has it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from subgraft.orchestration.store.events import EVENTS, EventLog, Metrics
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.compare import compare
from subgraft.orchestration.tracking.model_registry import REGISTERED, Registry
from subgraft.orchestration.tracking.server import KIND, Server
from subgraft.orchestration.tracking.tracker import SystemRun, Tracker
from subgraft.training.context import Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing, record_of
from tracking_servers import TrackingServer

if TYPE_CHECKING:
    from mlflow.entities import DatasetInput, LoggedModelOutput, Run

CORPUS, FINETUNE = ToyKind("corpus", 1, nothing), ToyKind("finetune", 1, nothing)
EVALUATE, REPORT = ToyKind("evaluate", 1, nothing), ToyKind("report", 1, nothing)
LINE = "a line of the corpus that no server is to see"


class ToyStage(Stage):
    of: str
    seed: int = 0


def corpus_in(out: Path) -> dict[str, Json]:
    for split, count in (("train", 3), ("test", 2)):
        (out / f"{split}.source").write_text(f"{LINE}\n" * count)
    return {"sizes": {"train": 3, "test": 2}}


def model_in(out: Path) -> dict[str, Json]:
    (out / "curve.json").write_text(json.dumps([{"step": 5, "values": {"bleu": 7.5}}, {"step": 9, "values": {}}]))
    return {"best_step": 5, "artifacts": ["curve.json"]}


class Experiment:
    """Two systems under one seed, in a store."""

    def __init__(self, home: Path) -> None:
        self.store = Store(home)
        self.corpus = Step(CORPUS.of(ToyStage(of="law")), "corpus law")
        self.finetune = {name: self.step(FINETUNE, name, corpus=self.corpus) for name in ("patt+kd", "old")}
        self.evaluate = {
            name: self.step(EVALUATE, name, model=model, corpus=self.corpus) for name, model in self.finetune.items()
        }
        self.report = Step(REPORT.of(ToyStage(of="all")), "report", dict(self.evaluate))

    def step(self, stage: ToyKind, system: str, **inputs: Step) -> Step:
        labels = {"system": system, "seed": "1"}
        return Step(stage.of(ToyStage(of=system, seed=1)), f"{stage.name} {system} seed 1", inputs, labels)

    def tracker(self, uri: str | None, name: str, said: list[str]) -> Tracker:
        systems = [
            SystemRun(
                system,
                1,
                {"initialiser": "patt" if "patt" in system else None, "seed": 1, "finetune": {"learning_rate": 0.5}},
                {"finetune": model, "test": self.evaluate[system]},
                [self.corpus],
            )
            for system, model in self.finetune.items()
        ]
        return Tracker(self.store, "toy", said.append, name=name, uri=uri, systems=systems, report=self.report)

    def make_all(self, tracker: Tracker) -> None:
        """As a first run does: systems at the same time, the curve while it grows."""
        tracker.started(self.corpus)
        tracker.finished(self.corpus, self.store.publish(self.corpus, corpus_in))
        for system, finetune in self.finetune.items():
            log = EventLog(self.store.work(finetune) / EVENTS)
            self.store.work(finetune).mkdir(parents=True)
            tracker.started(finetune)
            for step in (5, 9):
                log.append(Metrics(step, {"dev_bleu": float(step)}))
                tracker.metrics(finetune, Metrics(step, {"dev_bleu": float(step)}, time.time()))
            tracker.finished(finetune, self.store.publish(finetune, model_in))
            tracker.finished(self.evaluate[system], self.store.publish(self.evaluate[system], scored(len(system))))
        tracker.finished(self.report, self.store.publish(self.report, report_in))

    def find_all(self, tracker: Tracker) -> None:
        """As a run does that finds everything made."""
        for step in (self.corpus, *self.finetune.values(), *self.evaluate.values(), self.report):
            tracker.cached(step, record_of(self.store, step))


def scored(bleu: float) -> Any:
    return lambda out: {"BLEU": bleu, "sentences_per_second": 3.0, "signatures": {"BLEU": "tok:13a"}}


def report_in(out: Path) -> dict[str, Json]:
    (out / "report.html").write_text("<p>a report")
    return {"artifacts": ["report.html"]}


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return Experiment(tmp_path / "home")


def check_whole(toy: Experiment, server: Server, name: str, cached: str) -> None:
    """A run of the invocation, and below it one for each system, whole."""
    parent = server.find(name)
    runs = {child.name: server.client.get_run(child.id) for child in server.children(parent) if "kind" in child.tags}
    assert sorted(runs) == ["old seed 1", "patt+kd seed 1"]
    for system in ("old", "patt+kd"):
        run = runs[f"{system} seed 1"]
        assert run.info.status == "FINISHED" and run.data.tags["cached"] == cached
        assert run.data.params["finetune.learning_rate"] == "0.5" and run.data.params["seed"] == "1"
        assert run.data.metrics["test/BLEU"] == len(system) and run.data.metrics["finetune/best_step"] == 5.0
        assert run.data.tags["mlflow.user"] and run.data.tags["mlflow.source.type"] == "LOCAL"
        commit = run.data.tags["git_commit"]
        assert run.data.tags.get("mlflow.source.git.commit", "") == commit.removesuffix("+")
        points = server.client.get_metric_history(run.info.run_id, "dev_bleu")
        assert [(point.step, point.value) for point in points] == [(5, 5.0), (9, 9.0)]
        read = {one.dataset.name: (one.dataset, one.tags[0].value) for one in datasets_of(run)}
        assert {name: context for name, (_, context) in read.items()} == {"law/train": "training", "law/test": "test"}
        assert json.loads(read["law/train"][0].profile or "") == {"num_rows": 3}
        (output,) = models_of(run)
        model = server.client.get_logged_model(output.model_id)
        (score,) = model.metrics or []
        assert (model.source_run_id, score.key, score.value) == (run.info.run_id, "test/BLEU", len(system))
        assert (score.dataset_name, score.dataset_digest) == ("law/test", read["law/test"][0].digest)
        assert model.tags["digest"] == record_of(toy.store, toy.finetune[system]).digest
    assert (parent.metrics["BLEU/old"], parent.metrics["BLEU/patt_kd"]) == (3.0, 7.0)
    assert "| patt+kd | 7.00 |" in parent.tags["mlflow.note.content"]
    assert parent.tags["fingerprint.report"] == toy.report.fingerprint
    assert "report/report.html" in {item.path for item in server.client.list_artifacts(parent.id, "report")}


def datasets_of(run: Run) -> list[DatasetInput]:
    assert run.inputs is not None
    return run.inputs.dataset_inputs


def models_of(run: Run) -> list[LoggedModelOutput]:
    return run.outputs.model_outputs if run.outputs else []


def experiments_of(server: Server) -> Sequence[Any]:
    return [one for one in server.client.search_experiments() if one.name == "toy"]


def check_two_runs(toy: Experiment, uri: str | None) -> None:
    said: list[str] = []
    first = toy.tracker(uri, "first", said)
    toy.make_all(first)
    first.register(toy.finetune["old"], "toy-en-de", ["candidate"])
    assert first.close() and said == []
    second = toy.tracker(uri, "second", said)
    toy.find_all(second)
    assert second.close() and said == []

    server = Server(toy.store.home, uri)
    (experiment,) = experiments_of(server)
    assert experiment.tags[KIND[0]] == "custom_model_development"
    check_whole(toy, server, "first", "false")
    check_whole(toy, server, "second", "true")
    alone = [child.name for child in server.children(server.find("first")) if "stage" in child.tags]
    assert alone == ["corpus law"], "what no system's run shows has a run of its own"
    assert len(list(server.children(server.find("second")))) == 2, "cached steps add no other run"
    figures = {one.system: one.figures["BLEU"] for one in compare(server, ["first"])}
    assert figures == {"patt+kd": 7.0, "old": 3.0}
    version = Registry(server).version("toy-en-de@candidate")
    held = server.client.get_run(version.run_id)
    (trained,) = models_of(held)
    linked = server.client.get_logged_model(trained.model_id).tags[REGISTERED]
    assert held.data.tags["system"] == "old" and json.loads(linked) == [{"name": "toy-en-de", "version": 1}]
    for folder in (toy.store.home / "mlartifacts", toy.store.home.parent / "server" / "artifacts"):
        files = [path for path in folder.rglob("*") if path.is_file() and path.suffix in (".json", ".html", ".source")]
        assert all(LINE not in path.read_text() for path in files), "no text of a corpus is copied"


def test_a_system_is_one_run(toy: Experiment) -> None:
    check_two_runs(toy, None)


@pytest.mark.slow
def test_on_a_server_too(toy: Experiment, tracking_server: TrackingServer) -> None:
    check_two_runs(toy, tracking_server.uri)


def test_a_curve_is_found_without_its_work_directory(toy: Experiment) -> None:
    """After a garbage collection the dev scores are those that the artifact holds."""
    for step, make in ((toy.corpus, corpus_in), (toy.finetune["old"], model_in)):
        toy.store.publish(step, make)
    tracker = toy.tracker(None, "later", [])
    tracker.cached(toy.finetune["old"], record_of(toy.store, toy.finetune["old"]))
    tracker.finished(toy.evaluate["old"], toy.store.publish(toy.evaluate["old"], scored(4.0)))
    assert tracker.close()
    server = Server(toy.store.home)
    (child,) = server.children(server.find("later"))
    assert child.metrics["dev_bleu"] == 7.5 and child.tags["cached"] == "false"


def test_a_system_that_is_cut_short_is_ended(toy: Experiment) -> None:
    tracker = toy.tracker(None, "cut", [])
    tracker.started(toy.finetune["patt+kd"])
    tracker.failed(toy.finetune["patt+kd"], RuntimeError("out of disk"))
    tracker.started(toy.finetune["old"])
    assert tracker.close("FAILED")
    server = Server(toy.store.home)
    runs = {child.name: server.client.get_run(child.id) for child in server.children(server.find("cut"))}
    assert {name: run.info.status for name, run in runs.items()} == {
        "patt+kd seed 1": "FAILED",
        "old seed 1": "KILLED",
    }
    assert runs["patt+kd seed 1"].data.tags["error"] == "finetune: out of disk"
    assert not any(models_of(run) for run in runs.values())


def test_what_is_delivered_twice_is_there_once(toy: Experiment) -> None:
    """As after a kill between an answer and its noting."""
    server = Server(toy.store.home)
    run = server.start("toy", "a run", 1, {}, {})
    dataset = {"name": "law/test", "digest": "0" * 32, "source": "{}", "schema": "{}", "profile": "{}"}
    for _ in range(2):
        server.log_datasets(run, [dataset | {"context": "test"}])
        server.log_model(run, "a model", {"digest": "1"}, [("BLEU", 3.0, 1, 0)], ("law/test", "0" * 32))
    logged_run = server.client.get_run(run)
    assert len(datasets_of(logged_run)) == len(models_of(logged_run)) == 1
    assert len(server.client.search_logged_models([logged_run.info.experiment_id])) == 1


def test_an_experiment_that_another_program_made_gets_its_kind(toy: Experiment) -> None:
    server = Server(toy.store.home)
    server.client.create_experiment("toy")
    server.client.create_experiment("other", tags={KIND[0]: "regression"})
    server.start("toy", "a run", 1, {}, {})
    server.set_experiment_kinds()
    kinds = {one.name: one.tags[KIND[0]] for one in server.client.search_experiments()}
    assert kinds["toy"] == KIND[1] and kinds["other"] == "regression"
