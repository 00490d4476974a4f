"""A tracking server that answers with errors and halves of answers: nothing is lost, and nothing is begun twice."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faulty_proxies import FAULTS, FaultyProxy
from subgraft.orchestration.tracking.model_registry import RegisterModel, Registry
from subgraft.orchestration.tracking.outbox import (
    Delivery,
    EndRun,
    LogArtifacts,
    LogMetrics,
    Outbox,
    SetTags,
    StartRun,
)
from subgraft.orchestration.tracking.server import Server
from tracking_servers import TrackingServer

# Ten minutes show no more than these do, in which every fault comes many times.
BROKEN_SECONDS = float(os.environ.get("SUBGRAFT_BROKEN_SECONDS", "20"))
RUNS, POINTS = 3, 40


@pytest.fixture
def proxy(tracking_server: TrackingServer) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(tracking_server.uri)
    try:
        yield proxy
    finally:
        proxy.close()


def write(outbox: Outbox, folder: Path, seconds: float) -> None:
    """What a run would note over so many seconds."""
    outbox.append(StartRun("invocation", None, "demo", "monday", {"config": "demo.yaml"}, {"seeds": "1"}, 1))
    for run in range(RUNS):
        name = f"stage {run}"
        outbox.append(StartRun(name, "invocation", "demo", name, {"stage": "pretrain"}, {"rate": "0.5"}, 2 + run))
        for step in range(POINTS):
            outbox.append(LogMetrics(name, [("loss", 1.0 / (1 + step), 10 + step, step)]))
            time.sleep(seconds / RUNS / POINTS)
        outbox.append(SetTags(name, {"device": "cpu"}))
        outbox.append(LogArtifacts(name, str(folder), ["model.safetensors"]))
        outbox.append(EndRun(name, "FINISHED", 99))
    outbox.append(
        RegisterModel("stage 0", "demo-en-de", str(folder), "0" * 64, ["candidate", "champion"], {}, "# Card\n")
    )
    outbox.append(EndRun("invocation", "FINISHED", 100))


@pytest.mark.slow
def test_errors_and_half_answers_lose_and_double_nothing(
    tracking_server: TrackingServer, proxy: FaultyProxy, tmp_path: Path
) -> None:
    home, folder, said = tmp_path / "home", tmp_path / "model", list[str]()
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    proxy.broken = True
    outbox = Outbox.create(home / "tracking")
    delivery = Delivery(outbox, home, proxy.uri, said.append, retry=0.1)
    began = time.monotonic()
    write(outbox, folder, BROKEN_SECONDS)
    assert time.monotonic() - began < BROKEN_SECONDS + 10, "the run waits for no server"
    while not all(proxy.seen[fault] for fault in FAULTS):
        assert time.monotonic() - began < BROKEN_SECONDS + 120, (said, proxy.seen)
        time.sleep(0.1)
    proxy.broken = False
    assert delivery.finish(), said
    assert len(said) == 1 and said[0].startswith("tracking is not available"), said
    assert not list((home / "tracking").iterdir())

    server = Server(home, tracking_server.uri)
    (parent,) = server.recent(10)
    children = list(server.children(parent))
    assert [child.name for child in children] == [f"stage {run}" for run in range(RUNS)]
    for run in (parent, *children):
        assert server.client.get_run(run.id).info.status == "FINISHED"
    for child in children:
        points = server.client.get_metric_history(child.id, "loss")
        assert [(point.step, point.value) for point in points] == [(step, 1.0 / (1 + step)) for step in range(POINTS)]
        assert child.tags["device"] == "cpu"
        assert "model.safetensors" in {item.path for item in server.client.list_artifacts(child.id)}
    (version,) = Registry(server).versions()
    assert version.aliases == ("candidate", "champion")


@pytest.mark.slow
def test_a_run_begun_without_an_answer_is_found_by_the_next(tracking_server: TrackingServer, tmp_path: Path) -> None:
    """Killed between the server's answer and its noting: the next run goes on with the run that is there."""
    home = tmp_path / "home"
    outbox = Outbox.create(home / "tracking")
    outbox.append(StartRun("invocation", None, "demo", "monday", {}, {"seeds": "1"}, 1))
    server = Server(home, tracking_server.uri)
    lost = server.start("demo", "monday", 1, {}, {}, key=f"{outbox.path.stem}/invocation")
    outbox.keep()
    assert Delivery(Outbox.create(home / "tracking"), home, tracking_server.uri, print).finish()
    (run,) = server.recent(10)
    assert run.id == lost and server.client.get_run(lost).info.status == "KILLED"


def test_a_server_that_never_ends_an_answer_delays_no_run(tmp_path: Path) -> None:
    """It gives a byte a second, each in time for a request to go on."""
    import socket

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            for _ in range(600):
                time.sleep(1)
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=drip, args=(listening,), daemon=True).start()
        outbox = Outbox.create(tmp_path / "tracking")
        outbox.append(StartRun("invocation", None, "demo", "monday", {}, {}, 1))
        uri = f"http://127.0.0.1:{listening.getsockname()[1]}"
        delivery = Delivery(outbox, tmp_path, uri, print, patience=3.0)
        began = time.monotonic()
        assert not delivery.finish()
        assert time.monotonic() - began < 60
        assert outbox.read(0), "it is left to the next run"
