"""Runs as MLflow shows them, in a real SQLite file; and runs whose server is away."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.terminal import Terminal
from subgraft.config.settings_base import Settings
from subgraft.orchestration.store.events import Metrics
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.compare import SINGLE, compare, table
from subgraft.orchestration.tracking.model_registry import CARD, TEXTS, Registry
from subgraft.orchestration.tracking.outbox import Delivery, Outbox, StartRun
from subgraft.orchestration.tracking.payloads import SHORT_LENGTH, fingerprints_in
from subgraft.orchestration.tracking.server import Server, tracking_uri
from subgraft.orchestration.tracking.tracker import Tracker
from subgraft.pipeline.stages.evaluation import TEST_SET
from subgraft.training.context import Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing, record_of
from tracking_servers import TrackingServer, closed_port


class Inner(Settings):
    rate: float = 0.5


class ToyStage(Stage):
    system: str
    inner: Inner = Inner()


EVALUATE, FINETUNE = ToyKind("evaluate", 1, nothing), ToyKind("finetune", 1, nothing)


@pytest.fixture(autouse=True)
def no_server_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """One home for the module: its tables take two seconds to make."""
    return Store(tmp_path_factory.mktemp("home") / "with space")


def evaluation(store: Store, system: str, bleu: float) -> Step:
    step = Step(EVALUATE.of(ToyStage(system=system)), f"evaluate {system}", labels={"system": system, "seed": "1"})

    def write(out: Path) -> dict[str, Json]:
        (out / "plots").mkdir()
        (out / "plots" / "curve.txt").write_text("a curve")
        return {"BLEU": bleu, "signature": {"BLEU": "tok:13a"}, "artifacts": ["plots/curve.txt"]}

    store.publish(step, write)
    return step


def metrics(step: int, loss: float) -> Metrics:
    return Metrics(step, {"loss": loss}, time.time())


def test_a_run_is_recorded_whole(store: Store) -> None:
    said: list[str] = []
    step = evaluation(store, "avg", 31.5)
    old = evaluation(store, "old", 30.25)
    tracker = Tracker(store, "demo", said.append, name="first", params={"seeds": [1, 2]}, tags={"config": "demo.yaml"})
    tracker.cached(old, record_of(store, old))
    tracker.started(step)
    for number in range(1500):
        tracker.metrics(step, metrics(number, 1.0 / (number + 1)))
    tracker.metrics(step, metrics(700, 99.0))
    tracker.finished(step, record_of(store, step))
    assert tracker.close() and said == []

    server = Server(store.home)
    run = server.find("first")
    assert run.tags["config"] == "demo.yaml" and "argv" in run.tags
    (made,) = server.children(run)
    assert (run.metrics["steps/found"], run.metrics["steps/made"]) == (1.0, 1.0), "cached steps have no run"
    assert list(fingerprints_in(run.tags)) == [old.fingerprint[:SHORT_LENGTH]]
    expected = {"cached": "false", "stage": "evaluate", "fingerprint": step.fingerprint, "system": "avg", "seed": "1"}
    assert expected.items() <= made.tags.items()
    assert made.tags["signature.BLEU"] == "tok:13a"
    assert made.metrics["BLEU"] == 31.5 and made.metrics["loss"] == pytest.approx(1 / 1500)

    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=server.uri)
    stored = client.get_run(made.id)
    assert stored.info.status == "FINISHED" and client.get_run(run.id).info.status == "FINISHED"
    assert stored.data.params == {"system": "avg", "inner.rate": "0.5"}
    curve = client.get_metric_history(made.id, "loss")
    assert [point.step for point in curve] == list(range(1500)), "repeated steps are recorded once"
    assert {item.path for item in client.list_artifacts(made.id)} == {"record.json", "plots"}
    assert not list((store.home / "tracking").iterdir()), "nothing is left to deliver"


def test_failures_and_interruptions_are_recorded(store: Store) -> None:
    from mlflow import MlflowClient

    step, other = evaluation(store, "broken", 0.0), evaluation(store, "stopped", 0.0)
    tracker = Tracker(store, "demo", print, name="second")
    tracker.started(step)
    tracker.failed(step, OperationalError("out of disk"))
    tracker.failed(other, KeyboardInterrupt())
    assert tracker.close("FAILED")
    server = Server(store.home)
    run = server.find("second")
    client = MlflowClient(tracking_uri=server.uri)
    assert client.get_run(run.id).info.status == "FAILED"
    broken, stopped = server.children(run)
    assert broken.tags["error"] == "out of disk"
    assert client.get_run(broken.id).info.status == "FAILED"
    assert client.get_run(stopped.id).info.status == "KILLED"


def scored(bleu: float) -> Callable[[Path], dict[str, Json]]:
    return lambda out: {"BLEU": bleu}


def test_runs_are_compared(store: Store) -> None:
    for name, bleu in (("monday", 20.0), ("tuesday", 21.0)):
        tracker = Tracker(store, "demo", print, name=name)
        for system in ("att", "patt"):
            step = Step(
                EVALUATE.of(ToyStage(system=f"{name} {system}")), system, labels={"system": system, "seed": "1"}
            )
            tracker.finished(step, store.publish(step, scored(bleu)))
        tracker.close()
    tracker = Tracker(store, "demo", print, name="forgetful")
    own = {"system": "patt", "seed": "1"}
    after = own | {TEST_SET: "upstream"}
    labels_of = {"patt": own, "after": after, "bert": {TEST_SET: "upstream"}}
    for name, labels in labels_of.items():
        step = Step(EVALUATE.of(ToyStage(system=name)), f"evaluate {name}", labels=labels)
        tracker.finished(step, store.publish(step, lambda out: {"BLEU": 1.0}))
    tracker.close()
    server = Server(store.home)
    systems = compare(server, ["tuesday", server.find("monday").id])
    assert [(system.run, system.system, system.figures["BLEU"]) for system in systems] == [
        ("tuesday", "att", 21.0),
        ("tuesday", "patt", 21.0),
        ("monday", "att", 20.0),
        ("monday", "patt", 20.0),
    ]
    names = [system.system for system in compare(server, ["forgetful"])]
    assert names == ["patt", "patt (upstream)", "evaluate bert"]
    console = Terminal(width=100, record=True, file=(store.home / "printed").open("w"))
    console.print(table(systems, 100, [SINGLE]))
    shown = console.export_text()
    assert re.search(r"patt +1 +1 +21", shown) and "run 1: tuesday" in shown
    assert "may be due to chance, by seeds" in re.sub(r"\s+", " ", shown)
    with pytest.raises(UserError, match=r"there is no run 'sunday'.*\n.*tuesday"):
        compare(server, ["sunday"])
    with pytest.raises(UserError, match="none of these runs has a finished stage 'finetune'"):
        compare(server, ["monday"], stage="finetune")


def model(store: Store, system: str, value: float) -> Step:
    step = Step(FINETUNE.of(ToyStage(system=system)), f"finetune {system}", labels={"system": system})

    def write(out: Path) -> dict[str, Json]:
        save_file({"weight": np.full(3, value, np.float32)}, out / "model.safetensors")
        (out / "decoder").mkdir()
        (out / "decoder" / "tokenizer.json").write_text("{}")
        return {}

    store.publish(step, write)
    return step


def register(store: Store, uri: str | None, step: Step, *aliases: str) -> None:
    tracker = Tracker(store, "demo", print, uri=uri)
    tracker.finished(step, record_of(store, step))
    tracker.register(step, "demo-en-de", aliases, {"task": "translation"}, card="# A card\n", evaluation=texts(store))
    assert tracker.close()


def texts(store: Store) -> Step:
    """An evaluation with the texts that travel with a model."""

    def write(out: Path) -> dict[str, Json]:
        for name in TEXTS:
            (out / name).write_text(f"{name}\n")
        return {}

    step = Step(EVALUATE.of(ToyStage(system="texts")), "texts")
    store.publish(step, write)
    return step


def check_registry(store: Store, uri: str | None) -> None:
    """Two models, one of them twice; what comes back is what went in."""
    first, second = model(store, "avg", 1.0), model(store, "patt", 2.0)
    register(store, uri, first, "candidate", "champion")
    register(store, uri, second, "candidate")
    register(store, uri, first, "candidate")
    registry = Registry(Server(store.home, uri))
    for step, number in ((first, 1), (second, 2)):
        version = registry.with_digest("demo-en-de", record_of(store, step).digest)
        assert version is not None and version.number == number
    for name, value in (("@champion", 1.0), ("@candidate", 1.0), ("/2", 2.0)):
        directory = registry.resolve(f"models:/demo-en-de{name}")
        assert load_file(directory / "model.safetensors")["weight"][0] == value
        assert (directory / "decoder" / "tokenizer.json").read_text() == "{}"
        assert (directory / CARD).read_text() == "# A card\n"
        evaluation = registry.evaluation(registry.version(f"demo-en-de{name}"))
        assert evaluation is not None
        assert [(evaluation / text).read_text() for text in TEXTS] == [f"{text}\n" for text in TEXTS]
    for missing in ("models:/demo-en-de@absent", "models:/absent/1", "models:/demo-en-de/77"):
        with pytest.raises(UserError, match="models:/demo-en-de@champion"):
            registry.resolve(missing)
    assert [(one.number, one.aliases) for one in registry.versions()] == [(2, ()), (1, ("candidate", "champion"))]
    pulled = store.home / f"pulled {'http' if uri else 'sqlite'}"
    pulled.mkdir()
    registry.pull("models:/demo-en-de/2", pulled)
    assert load_file(pulled / "model.safetensors")["weight"][0] == 2.0
    (registry.resolve("models:/demo-en-de/2") / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(OperationalError, match="not the ones that were registered"):
        registry.resolve("models:/demo-en-de/2")


def test_models_are_registered_once_and_found_again(store: Store) -> None:
    check_registry(store, None)


def test_a_server_that_is_away_costs_one_line_and_is_caught_up_with(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    step = evaluation(store, "away", 12.0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{closed_port()}")
    started = time.monotonic()
    tracker = Tracker(store, "demo", said.append, name="away")
    tracker.finished(step, record_of(store, step))
    # A client that retries waits for minutes.
    assert time.monotonic() - started < 20, "nobody waits for the server"
    assert tracker.close() is False
    first, last = said
    assert first.startswith("tracking is not available") and "\n" not in first
    assert "is sent with the next run" in last
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert Tracker(store, "demo", said.append, name="later").close()
    server = Server(store.home)
    (child,) = server.children(server.find("away"))
    assert child.metrics["BLEU"] == 12.0
    assert len(said) == 2


def test_a_home_that_cannot_be_written_to_is_reported(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(OperationalError, match="cannot write there"):
        Tracker(Store(tmp_path / "home"), "demo", print)


def test_a_server_that_comes_back_is_used(store: Store) -> None:
    said: list[str] = []
    outbox = Outbox.create(store.home / "tracking")
    outbox.append(StartRun("invocation", None, "demo", "patient", {}, {}, 1))
    blocked = store.home.with_name("blocked")
    blocked.write_text("a file where the home should be")
    delivery = Delivery(outbox, blocked, None, said.append, retry=0.2)
    while not said:
        time.sleep(0.05)
    blocked.unlink()
    assert delivery.finish()
    assert Server(blocked).find("patient")


def test_a_killed_runs_record_is_completed_by_the_next(store: Store) -> None:
    program = (
        "import sys, time; from pathlib import Path\n"
        "from subgraft.orchestration.store.store import Store\n"
        "from subgraft.orchestration.tracking.tracker import Tracker\n"
        "store = Store(Path(sys.argv[1])); tracker = Tracker(store, 'demo', print, name='killed')\n"
        "while not tracker._outbox.delivered().open: time.sleep(0.1)\n"
        "print('ready', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(store.home)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert Tracker(store, "demo", print, name="after").close()
    from mlflow import MlflowClient

    server = Server(store.home)
    assert MlflowClient(tracking_uri=server.uri).get_run(server.find("killed").id).info.status == "KILLED"
    assert not list((store.home / "tracking").iterdir())


def test_a_new_home_is_set_up_without_a_word(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from subgraft.orchestration.tracking.server import Server; "
    program += "Server(Path(sys.argv[1])).find('none')"
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (tmp_path / "mlflow.db").exists()
    assert done.stdout == "" and done.stderr.startswith("Traceback"), done.stderr
    assert "there is no run 'none'" in done.stderr


def test_where_runs_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracking_uri(tmp_path) == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://one:5000")
    assert tracking_uri(tmp_path) == "http://one:5000"
    assert tracking_uri(tmp_path, "http://two:5000") == "http://two:5000"


@pytest.mark.slow
def test_the_registry_over_http(tracking_server: TrackingServer, tmp_path: Path) -> None:
    check_registry(Store(tmp_path / "home"), tracking_server.uri)
