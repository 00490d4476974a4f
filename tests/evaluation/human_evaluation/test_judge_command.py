"""`subgraft judge` as people use it: sheets of a real run's outputs, filled, and what comes of them."""

from __future__ import annotations

import csv
import json
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from small_experiments import finish, tiny, written
from subgraft.evaluation.human_evaluation.sheet import REFERENCE, Key
from subgraft.interfaces.cli import main
from subgraft.pipeline.artifacts import read_lines

QUESTIONS = ("grammatical", "without repetition", "consistent", "fits its source")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, tuple[str, ...]]]:
    """A run's configuration, and what each of its systems wrote for three sources."""
    place = tmp_path_factory.mktemp("run")
    pipeline, store = finish(written(place, tiny(pretrain="{epochs: 1, batch_size: 500, precision: fp32}")))
    texts = {each.system.name: read_lines(store.path(each.evaluate) / "hypotheses.txt") for each in pipeline.systems}
    texts[REFERENCE] = read_lines(store.path(pipeline.systems[0].evaluate) / "references.txt")
    return place / "config.yaml", texts


@pytest.fixture
def make(finished: tuple[Path, dict[str, tuple[str, ...]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two sheets of everything, next to their key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAFT_HOME", str(finished[0].parent / "home"))
    arguments = ["judge", "make", str(finished[0]), "--out", "sheets", "--key", "kept/key.json", "--judges", "2"]
    assert main(arguments) == 0
    return tmp_path


def _rows(sheet: Path) -> list[dict[str, str]]:
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def _fill(sheet: Path, answer: Mapping[str, int | str], delimiter: str = ",") -> None:
    """As a judge does: every question of a text with the answer to its key."""
    rows = [{**row, **dict.fromkeys(QUESTIONS, str(answer[row["key"]]))} for row in _rows(sheet)]
    with sheet.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def test_a_sheet_has_every_text_and_no_name(make: Path, finished: tuple[Path, dict[str, tuple[str, ...]]]) -> None:
    key, texts = Key.read(make / "kept" / "key.json"), finished[1]
    assert stat.S_IMODE((make / "kept" / "key.json").stat().st_mode) == 0o600
    first, second = (_rows(make / "sheets" / f"judge-{judge}.csv") for judge in (1, 2))
    assert [row["key"] for row in first] != [row["key"] for row in second], "each judge has an order of its own"
    assert {row["key"] for row in first} == {row["key"] for row in second} == set(key.texts)
    assert set(key.systems) == {"plain", "mean", REFERENCE} and len(first) == 9
    for row in first:
        by = key.texts[row["key"]]
        assert row["text"].removeprefix("'") == texts[by.system][by.item]
        assert [row[question] for question in QUESTIONS] == [""] * 4
    for name in ("plain", "mean", REFERENCE):
        assert not any(name in cell for row in first for cell in (row["key"], *row))
    assert sorted(path.name for path in (make / "sheets").iterdir()) == ["judge-1.csv", "judge-2.csv"]


def test_a_seed_makes_the_same_sheets_and_another_does_not(
    make: Path, finished: tuple[Path, dict[str, tuple[str, ...]]]
) -> None:
    def sheet(name: str, seed: str) -> bytes:
        arguments = ["--out", name, "--key", f"{name}.json", "--seed", seed, "--judges", "1"]
        assert main(["judge", "make", str(finished[0]), *arguments]) == 0
        return (make / name / "judge-1.csv").read_bytes()

    assert sheet("again", "1") == (make / "sheets" / "judge-1.csv").read_bytes() != sheet("other", "2")


def test_filled_sheets_give_means_intervals_and_agreement(make: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = Key.read(make / "kept" / "key.json")
    good = {name: int(by.system == REFERENCE) for name, by in key.texts.items()}
    sheets = [make / "sheets" / f"judge-{judge}.csv" for judge in (1, 2)]
    # The second judge has a spreadsheet that writes semicolons, and finds one text of `plain` good too.
    kind = next(name for name, by in key.texts.items() if by.system == "plain")
    _fill(sheets[0], good)
    _fill(sheets[1], good | {kind: 1}, delimiter=";")
    capsys.readouterr()
    assert main(["judge", "score", "kept/key.json", *map(str, sheets), "--out", "ratings.json"]) == 0
    assert "agreement" in (shown := capsys.readouterr().out) and "2 judges, 3 items" in shown
    ratings = json.loads((make / "ratings.json").read_text())
    assert ratings["systems"][REFERENCE]["combined"] == {"mean": 4.0, "interval": [4.0, 4.0]}
    assert ratings["systems"]["mean"]["grammatical"]["mean"] == 0
    plain = ratings["systems"]["plain"]["combined"]
    assert plain["mean"] == pytest.approx(4 / 6)
    # One of three items has 2 of 4 on average: in 8 of 27 resamples it is not there, in one it is all there is.
    assert plain["interval"] == pytest.approx([0, 2], abs=0.1)
    # Two judges of nine texts gave 7 ones and 11 zeros, and differ once: 2 / 18, by chance 2 · 7 · 11 / (18 · 17).
    assert ratings["krippendorff_alpha"]["grammatical"] == pytest.approx(1 - (2 / 18) / (2 * 7 * 11 / (18 * 17)))


def test_every_mistake_of_a_sheet_is_reported(make: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sheet = make / "sheets" / "judge-1.csv"
    rows = _rows(sheet)
    _fill(sheet, {row["key"]: 1 for row in rows})
    first, second, third, *others, last = sheet.read_text(encoding="utf-8-sig").splitlines()[1:]
    wrong = [
        first.rsplit(",", 1)[0] + ",2",
        second.rsplit(",", 1)[0] + ",",
        third.replace(rows[2]["key"], "0badc0de"),
        *others,
        others[0],
    ]
    head = sheet.read_text(encoding="utf-8-sig").splitlines()[0]
    sheet.write_text("\n".join([head, *wrong]) + "\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["judge", "score", "kept/key.json", str(sheet), "--out", "ratings.json"]) == 2
    errors = capsys.readouterr().err
    assert "judge-1.csv:2: fits its source: '2' is not an answer" in errors
    assert "judge-1.csv:3" not in errors, "an empty cell may stay empty"
    assert "judge-1.csv:4: unknown key '0badc0de'" in errors
    assert f"key {rows[3]['key']} is there twice" in errors
    assert "2 texts of the sheet are not there" in errors and last
    assert "An answer is a whole number from 0 to 1." in errors and not (make / "ratings.json").exists()


def test_rows_that_are_not_filled_in_are_left_out_and_counted(make: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sheet with one row left empty, one with one filled, and one that nobody touched."""
    sheets = [make / "sheets" / f"judge-{number}.csv" for number in (1, 2)]
    rows = _rows(sheets[0])
    untouched = make / "untouched.csv"
    untouched.write_bytes(sheets[0].read_bytes())
    assert main(["judge", "score", "kept/key.json", str(untouched)]) == 2
    assert "no row is filled in" in capsys.readouterr().err
    _fill(sheets[0], {row["key"]: 1 for row in rows[1:]} | {rows[0]["key"]: ""})
    _fill(sheets[1], {row["key"]: "" for row in rows[1:]} | {rows[0]["key"]: 0})
    assert main(["judge", "score", "kept/key.json", *map(str, [*sheets, untouched]), "--out", "ratings.json"]) == 0
    left_out = 2 * len(rows)
    assert f"2 judges, 3 items. {left_out} rows are not filled in" in " ".join(capsys.readouterr().out.split())
    ratings = json.loads((make / "ratings.json").read_text())
    assert ratings["unfilled_rows"] == left_out and ratings["judges"] == 2
    means = [system["grammatical"]["mean"] for system in ratings["systems"].values()]
    assert sorted(means) == pytest.approx([2 / 3, 1, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "new", "--key", "new/key.json"], "the key would lie among the sheets"),
        (["--out", "new", "--key", "kept/key.json"], "kept/key.json: exists already\n  Name another file."),
        (["--out", "sheets", "--key", "key.json"], "sheets: exists and is not an empty directory"),
        (["--out", "new", "--key", "key.json", "--items", "4"], "4 items are requested, but only 3 exist"),
        (["--out", "new", "--key", "key.json", "--system", "ours"], "the run has no system 'ours'"),
        (["--out", "new", "--key", "key.json", "--question", "text"], "two columns would have one name"),
    ],
)
def test_what_cannot_be_made_is_refused(
    arguments: list[str],
    message: str,
    make: Path,
    finished: tuple[Path, dict[str, tuple[str, ...]]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = sorted(make.rglob("*"))
    assert main(["judge", "make", str(finished[0]), *arguments]) == 2
    assert message in capsys.readouterr().err and sorted(make.rglob("*")) == before


def test_files_other_than_sheets_are_refused(make: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (make / "plain.csv").write_text("a,b\n1,2\n")
    (make / "latin.csv").write_bytes("key,é\n".encode("latin-1"))
    for arguments, message in (
        (["kept/key.json", "plain.csv"], "plain.csv: no column 'key'"),
        (["kept/key.json", "latin.csv"], "latin.csv: not UTF-8"),
        (["kept/key.json", "nowhere.csv"], "nowhere.csv: there is no such file"),
        (["plain.csv", "plain.csv"], "plain.csv: this is not the key of a blind sheet"),
        (["kept/key.json", "sheets/judge-1.csv", "./sheets/judge-1.csv"], "two sheets have the same name"),
    ):
        assert main(["judge", "score", *arguments]) == 2
        assert message in capsys.readouterr().err
