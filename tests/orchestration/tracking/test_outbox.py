"""What is to be recorded is kept until it is delivered."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from subgraft.orchestration.tracking.model_registry import RegisterModel
from subgraft.orchestration.tracking.outbox import (
    EndRun,
    LogArtifacts,
    LogMetrics,
    Operation,
    Outbox,
    SetTags,
    StartRun,
    merge_metrics,
)

OPERATIONS: list[Operation] = [
    StartRun("invocation", None, "demo", "größer", {"a": "b"}, {"size": "10"}, 1),
    LogMetrics("invocation", [("loss", 1.5, 2, 1)]),
    SetTags("invocation", {"system": "avg"}),
    LogArtifacts("invocation", "/somewhere", ["record.json"]),
    RegisterModel("invocation", "demo", "/somewhere", "0" * 64, ["candidate"], {}),
    EndRun("invocation", "FINISHED", 3),
]


def read(outbox: Outbox, offset: int = 0) -> list[object]:
    return [operation for operation, _ in outbox.read(offset)]


def test_operations_come_back_as_they_were_appended(tmp_path: Path) -> None:
    outbox = Outbox.create(tmp_path)
    for operation in OPERATIONS:
        outbox.append(operation)
    entries = outbox.read(0)
    assert [type(operation) for operation, _ in entries] == [type(operation) for operation in OPERATIONS]
    assert entries[0][0] == OPERATIONS[0]
    assert read(outbox, offset=entries[2][1]) == OPERATIONS[3:]


def test_a_torn_line_is_left_for_later(tmp_path: Path) -> None:
    outbox = Outbox.create(tmp_path)
    outbox.append(OPERATIONS[0])
    with outbox.path.open("a") as stream:
        stream.write("garbage\n")
    outbox.append(OPERATIONS[2])
    with outbox.path.open("a") as stream:
        stream.write('{"kind": "EndRun", "ru')
    assert read(outbox) == [OPERATIONS[0], OPERATIONS[2]]


def test_how_far_delivery_came_is_remembered(tmp_path: Path) -> None:
    outbox = Outbox.create(tmp_path)
    delivered = outbox.delivered()
    assert (delivered.offset, delivered.runs, delivered.open) == (0, {}, [])
    outbox.append(OPERATIONS[0])
    delivered.offset, delivered.runs = 17, {"invocation": "abc"}
    outbox.note(delivered)
    assert outbox.delivered() == delivered


def test_only_what_dead_processes_left_is_taken_up(tmp_path: Path) -> None:
    program = (
        "import sys, os; from pathlib import Path\n"
        "from subgraft.orchestration.tracking.outbox import EndRun, Outbox\n"
        "outbox = Outbox.create(Path(sys.argv[1])); outbox.append(EndRun('invocation', 'FINISHED', 3))\n"
        "print(outbox.path, flush=True); sys.stdin.readline(); os._exit(1)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    path = Path(process.stdout.readline().strip())
    mine = Outbox.create(tmp_path)
    assert list(Outbox.left_behind(tmp_path)) == []
    process.communicate("\n", timeout=30)
    (left,) = Outbox.left_behind(tmp_path)
    assert left.path == path and read(left) == [OPERATIONS[-1]]
    left.remove()
    assert [entries.name for entries in sorted(tmp_path.iterdir())] == sorted(
        [mine.path.name, mine.path.with_suffix(".claim").name]
    )


# A letter is a point of that run, in capitals its end; expected are the offsets that delivery has reached after each.
@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ("aab", [("aa", 0), ("b", 3)]),
        ("abab", [("aa", 0), ("bb", 4)]),
        ("abAbab", [("a", 0), ("b", 2), ("A", 3), ("bb", 3), ("a", 6)]),
        ("ABa", [("A", 1), ("B", 2), ("a", 3)]),
        ("a", [("a", 1)]),
        ("", []),
    ],
)
def test_neighbouring_points_of_a_run_travel_together(runs: str, expected: list[tuple[str, int]]) -> None:
    operations: list[tuple[Operation, int]] = [
        (EndRun(run, "FINISHED", 0) if run.isupper() else LogMetrics(run, [("loss", 1.0, 0, step)]), step)
        for step, run in enumerate(runs, 1)
    ]
    merged, sent = list[tuple[str, int]](), list[int]()
    for operation, offset in merge_metrics(operations, begin=0):
        assert isinstance(operation, LogMetrics | EndRun)
        points = operation.points if isinstance(operation, LogMetrics) else ()
        sent += [step for *_, step in points]
        merged.append((operation.run * max(1, len(points)), offset))
    assert merged == expected
    assert sorted(sent) == [step for step, run in enumerate(runs, 1) if run.islower()]


def test_a_damaged_line_is_passed_over(tmp_path: Path) -> None:
    outbox = Outbox.create(tmp_path)
    lines = (
        "[1]",
        '{"kind": [1]}',
        '{"kind": "SetTags", "run": [1], "tags": {}}',
        '{"kind": "SetTags", "run": "invocation", "tags": [1]}',
        '{"kind": "LogMetrics", "run": "invocation", "points": [1]}',
        '{"kind": "EndRun", "run": "invocation", "status": "FINISHED", "time": "soon"}',
    )
    with outbox.path.open("a") as stream:
        stream.writelines(f"{line}\n" for line in lines)
    outbox.append(OPERATIONS[2])
    assert read(outbox) == [OPERATIONS[2]]


@pytest.mark.parametrize(
    "noted",
    ["[1]", "", "{", "\ud83d", '{"offset": "x"}', '{"offset": -1}', '{"offset": 99999}', '{"runs": [1]}', "null"],
)
def test_a_damaged_note_of_delivery_counts_as_none(tmp_path: Path, noted: str) -> None:
    outbox = Outbox.create(tmp_path)
    outbox.append(OPERATIONS[0])
    outbox.path.with_suffix(".sent").write_bytes(noted.encode("utf-8", "surrogatepass"))
    assert outbox.delivered().offset == 0 and outbox.delivered().runs == {}


def test_secrets_are_not_noted(tmp_path: Path) -> None:
    outbox = Outbox.create(tmp_path)
    outbox.append(StartRun("invocation", None, "demo", "monday", {"from": "http://me:word@host"}, {"a": "token=b"}, 1))
    assert read(outbox) == [
        StartRun("invocation", None, "demo", "monday", {"from": "http://***@host"}, {"a": "token=***"}, 1)
    ]
