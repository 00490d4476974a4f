"""Whatever reads a task's text reads it in every form that people have: lines, JSON lines, tables, folders."""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import subgraft
from saved_datasets import TEXT, save_to_disk
from subgraft.base.errors import UserError
from subgraft.interfaces.api.vocabularies import Text, text_lines
from subgraft.interfaces.cli import main
from toys import german

LINES = [*german(400), "  two  spaces ", "une élève"]


def records(path: Path, column: str = "text") -> Path:
    text = "".join(json.dumps({"id": n, column: line}) + "\n" for n, line in enumerate(LINES))
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def parquet(path: Path) -> Path:
    pd.DataFrame({"id": range(len(LINES)), "text": LINES}).to_parquet(path)
    return path


def table(path: Path, delimiter: str) -> Path:
    pd.DataFrame({"id": range(len(LINES)), "text": LINES}).to_csv(path, sep=delimiter, index=False)
    return path


def folder(path: Path) -> Path:
    """Two files of different forms, which are read in the order of their names."""
    path.mkdir()
    (path / "a.txt").write_text("".join(f"{line}\n" for line in LINES[:100]))
    rows = (json.dumps({"text": "\n".join(LINES[n : n + 50])}) for n in range(100, len(LINES), 50))
    (path / "b.jsonl").write_text("\n".join(rows))
    return path


FORMS: dict[str, Callable[[Path], Text]] = {
    "JSON lines": lambda tmp: records(tmp / "text.jsonl"),
    "gzipped JSON lines": lambda tmp: records(tmp / "text.jsonl.gz"),
    "CSV": lambda tmp: table(tmp / "text.csv", ","),
    "tab-separated lines": lambda tmp: table(tmp / "text.tsv.gz", "\t"),
    "Parquet": lambda tmp: parquet(tmp / "text.parquet"),
    "a folder": lambda tmp: folder(tmp / "texts"),
    "a saved data set": lambda tmp: save_to_disk([{"text": line} for line in LINES], {"text": TEXT}, tmp / "saved"),
    "a table in memory": lambda tmp: pd.DataFrame({"text": LINES}),
    "several": lambda tmp: [*LINES[:7], records(tmp / "text.jsonl")],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_text_has_the_same_lines_in_every_form(form: str, tmp_path: Path) -> None:
    text = FORMS[form](tmp_path)
    assert list(text_lines(text)) == [*(LINES[:7] if form == "several" else ()), *LINES]
    if form != "several":
        learnt, expected = (subgraft.learn_vocabulary(each, size=400) for each in (text, LINES))
        assert learnt.pieces == expected.pieces


def test_a_pruned_extension_reads_a_table_twice(tmp_path: Path) -> None:
    old = subgraft.learn_vocabulary(LINES, size=400, kind="bpe")
    table = pd.DataFrame({"text": LINES})
    by_form = [subgraft.extend(old, text, add=5, prune=True) for text in (table, iter(LINES))]
    assert by_form[0].pieces == by_form[1].pieces


COMMANDS = (
    "vocab learn --text FILE --size 400 --out OUT",
    "vocab extend VOCAB --text FILE --add 10 --out OUT",
    "vocab trim VOCAB --text FILE --out OUT",
    "vocab compare VOCAB VOCAB --text FILE",
    "vocab capacity VOCAB --text de=FILE",
    "vocab embed --vocab VOCAB --text FILE --dimensions 8 --epochs 1 --out OUT",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_column_has_the_name_that_an_option_gives(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vocabulary = tmp_path / "vocabulary"
    subgraft.learn_vocabulary(LINES, size=400).save(vocabulary)

    def words(file: Path, out: Path) -> list[str]:
        typed = command.replace("FILE", str(file)).replace("OUT", str(out)).replace("VOCAB", str(vocabulary))
        return shlex.split(typed)

    def run(file: Path, *options: str) -> tuple[str, dict[str, bytes]]:
        out = tmp_path / f"of-{file.name}"
        assert main([*words(file, out), *options]) == 0
        written = {path.name: path.read_bytes() for path in out.glob("*")} if out.exists() else {}
        return capsys.readouterr().out.replace(str(out), "OUT"), written

    plain = tmp_path / "text.txt"
    plain.write_text("".join(f"{line}\n" for line in LINES))
    named = records(tmp_path / "named.jsonl", "content")
    assert run(named, "--field", "content") == run(plain)
    assert main(words(named, tmp_path / "refused")) == 2
    assert "there is no column 'text'" in (error := capsys.readouterr().err) and "content" in error
    assert not (tmp_path / "refused").exists()


def test_rows_without_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.jsonl"
    file.write_text('{"text": "a"}\n{"text": 5}\n')
    with pytest.raises(UserError, match="contains no text"):
        list(text_lines(file))
    plain = tmp_path / "text.csv"
    plain.write_text("ein Satz, ohne Kopf\nnoch einer, ohne Kopf\n")
    with pytest.raises(UserError, match=r"text.csv:2: there is no column 'text'\n.*ein Satz, ohne Kopf"):
        list(text_lines(plain))
    with pytest.raises(UserError, match="no column 'text'"):
        list(text_lines(pd.DataFrame({"content": LINES})))
