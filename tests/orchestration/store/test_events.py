"""Reports survive kills and reach their reader once."""

from __future__ import annotations

from pathlib import Path

from subgraft.config.runtime import Runtime
from subgraft.orchestration.store.events import (
    EventLog,
    EventTail,
    Metrics,
    Noted,
    Progress,
    StageContext,
    Started,
    Warned,
)


def steps(tail: EventTail) -> list[int]:
    """Of the metrics that are new to a reader; nothing else is."""
    events = tail.read()
    metrics = [event for event in events if isinstance(event, Metrics)]
    assert len(metrics) == len(events)
    return [event.step for event in metrics]


def test_what_is_appended_is_read_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = EventTail(path)
    assert tail.read() == []
    log = EventLog(path)
    log.append(Started())
    context = StageContext(tmp_path, Runtime(), log)
    context.metrics(3, {"loss": 1.5})
    started, metrics = tail.read()
    assert isinstance(started, Started)
    assert isinstance(metrics, Metrics) and (metrics.step, metrics.values) == (3, {"loss": 1.5})
    assert tail.read() == []
    context.metrics(4, {"loss": 1.25})
    assert steps(tail) == [4]


def test_a_torn_line_spoils_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    EventLog(path).append(Metrics(1, {"loss": 2.0}))
    with path.open("a") as stream:
        stream.write('{"kind": "metrics", "st')
    tail = EventTail(path)
    assert steps(tail) == [1], "a line that is not finished is left for later"
    EventLog(path).append(Metrics(2, {"loss": 1.0}))
    assert steps(tail) == [2]


def test_foreign_lines_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text('[]\n{"kind": "unknown", "time": 0}\n{"kind": "started"}\n{"kind": "started", "time": 5}\n')
    assert EventTail(path).read() == [Started(5)]


def test_progress_is_limited_but_the_last_report_always_there(tmp_path: Path) -> None:
    context = StageContext(tmp_path, Runtime(), EventLog(tmp_path / "events.jsonl"))
    for done in range(1, 1001):
        context.progress(done, 1000, "sentences")
    context.progress(1, 5, "epochs")
    read = EventTail(tmp_path / "events.jsonl").read()
    events = [event for event in read if isinstance(event, Progress)]
    assert len(events) == len(read) < 100
    assert [(event.done, event.what) for event in events[-2:]] == [(1000, "sentences"), (1, "epochs")]


def test_of_several_workers_one_reports_and_any_warns(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    for rank in range(2):
        context = StageContext(tmp_path, Runtime(), EventLog(path), rank)
        context.progress(1, 2, "steps", "loss 5.012")
        context.metrics(1, {"loss": 1.0})
        context.note("a choice")
        context.warn(f"worker {rank} found something damaged")
    progress, metrics, note, *warnings = EventTail(path).read()
    assert isinstance(progress, Progress) and isinstance(metrics, Metrics) and isinstance(note, Noted)
    assert progress.now == "loss 5.012"
    lines = [event.line for event in warnings if isinstance(event, Warned)]
    assert len(warnings) == 2 and lines == [f"worker {rank} found something damaged" for rank in range(2)]
