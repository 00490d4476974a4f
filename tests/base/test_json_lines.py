"""JSON lines: strict with what users wrote, forbearing with logs that a kill may have torn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.base.json_io import append, objects, read_log


def test_a_users_lines_become_objects() -> None:
    assert list(objects(['{"a": 1}', '{"b": [2]}'], Path("a.jsonl"))) == [{"a": 1}, {"b": [2]}]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "not JSON: Expecting value"),
        ('{"a": 1', "not JSON: Expecting ',' delimiter"),
        ("[1]", "not a JSON object"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' * 70 + "1" + "}" * 70, "nested too deeply"),
        ('{"a": "\\ud800"}', "ud800 is half a character"),
        ('{"a": ' + "9" * 4301 + "}", "Exceeds the limit"),
    ],
)
def test_a_line_that_is_not_an_object_is_reported_with_its_place(line: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint) as caught:
        list(objects(["{}", line], Path("a.jsonl")))
    assert caught.value.where == "a.jsonl:2"


def test_what_was_appended_is_read_on_from_any_line(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert list(read_log(log)) == []
    for number in range(3):
        append(log, {"number": number, "text": "ü\n\u2028\ud800"}, durable=number == 1)
    entries = list(read_log(log))
    assert [fields["number"] for fields, _ in entries] == [0, 1, 2]
    assert entries[0][0]["text"] == "ü\n\u2028\ud800"
    assert [fields["number"] for fields, _ in read_log(log, entries[0][1])] == [1, 2]
    assert list(read_log(log, entries[-1][1])) == []


def test_a_torn_line_is_left_for_later_and_then_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    append(log, {"number": 0})
    with log.open("a") as stream:
        stream.write('{"number": 1')
    ((_, end),) = read_log(log)
    append(log, {"number": 2})
    assert [fields["number"] for fields, _ in read_log(log, end)] == [2]


def test_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b'garbage\n[]\n\xff\xfe\n\n{"number": 0}\n' + b"[" * 100_000 + b"\n")
    assert [fields for fields, _ in read_log(log)] == [{"number": 0}]


def test_lines_of_several_writers_stay_whole(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from subgraft.base.json_io import append\n"
        "for number in range(200): append(Path(sys.argv[1]), {'writer': sys.argv[2], 'text': 'x' * 20_000})"
    )
    log = tmp_path / "log.jsonl"
    writers = [subprocess.Popen([sys.executable, "-c", program, str(log), str(writer)]) for writer in range(3)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    entries = [fields for fields, _ in read_log(log)]
    assert sorted(fields["writer"] for fields in entries) == [str(writer) for writer in range(3) for _ in range(200)]
    assert {fields["text"] for fields in entries} == {"x" * 20_000}
