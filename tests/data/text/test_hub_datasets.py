"""Data sets from a hub on this machine, through the client that asks the real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubs import COMMIT, Hub, hub
from saved_datasets import TEXT, classes, write_parquet
from subgraft.base.errors import UserError
from subgraft.data.text.hub_datasets import HubDataset
from subgraft.modeling.bundle import Bundle
from toys import bert, cased_tokenizer, german

FEATURES = {"text": TEXT, "label": classes("neg", "pos")}
CARD = """---
license: mit
dataset_info:
- config_name: second
configs:
- config_name: first
  data_files:
  - split: train
    path: first/train-*
  - split: test
    path: first/test-*
- config_name: second
  data_files:
    train: second/*.parquet
{more}tags:
- made up
---
# Two configurations
"""
READ = """
import json, sys
from pathlib import Path
from subgraft.base.errors import SubgraftError
from subgraft.data.text.dataset_files import dataset_rows
for name in sys.argv[1:]:
    try:
        print(json.dumps([row["text"] + str(row.get("label", "")) for row, _ in dataset_rows(Path(name))]))
    except SubgraftError as error:
        print(json.dumps(str(error)))
"""


def rows(name: str, count: int = 2) -> list[dict[str, Any]]:
    return [{"text": f"{name} {number}", "label": number % 2} for number in range(count)]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Hub]:
    """toys/one in shards; toys/two with configurations; toys/script, whose Parquet the hub made; toys/lines."""
    folder = tmp_path / "hub" / "toys"
    for number in range(2):
        write_parquet(
            rows(f"train{number}"), FEATURES, folder / "one" / "data" / f"train-0000{number}-of-00002.parquet"
        )
    write_parquet(rows("test"), FEATURES, folder / "one" / "data" / "test-00000-of-00001.parquet")
    for name in ("first/train-00000-of-00001", "first/test-00000-of-00001", "second/00"):
        write_parquet(rows(name[:8]), FEATURES, folder / "two" / f"{name}.parquet")
    (folder / "two" / "README.md").write_text(CARD.format(more=""))
    for name in ("script", "two"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "LICENSE.txt").write_text("made up")
        (folder / name / f"{name}.py").write_text("raise SystemExit('run')")
    converted = tmp_path / "hub" / "converted" / "toys" / "script" / "plain" / "partial-train" / "0000.parquet"
    write_parquet(rows("made"), FEATURES, converted)
    (folder / "lines" / "nested").mkdir(parents=True)
    (folder / "lines" / "dev.jsonl").write_text('{"text": "dev"}\n')
    (folder / "lines" / "nested" / "training_data.jsonl").write_text('{"text": "training"}\n')
    (folder / "pickles").mkdir()
    (folder / "pickles" / "train.pkl").write_bytes(b"")
    with hub(tmp_path / "hub") as server:
        yield server


def run(server: Hub, place: Path, *command: str, offline: bool = False) -> subprocess.CompletedProcess[str]:
    environment = {
        "HF_ENDPOINT": server.address,
        "HF_HUB_CACHE": str(place / "cache"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_OFFLINE": str(int(offline)),
        "SUBGRAFT_HOME": str(place / "home"),
    }
    whole = [sys.executable, *command]
    return subprocess.run(
        whole, env=os.environ | environment, capture_output=True, text=True, check=False, cwd=place, timeout=240
    )


def read(server: Hub, place: Path, *names: str, offline: bool = False) -> tuple[list[Any], str]:
    """The texts of each data set, or the message, and what was printed as an error."""
    ended = run(server, place, "-c", READ, *names, offline=offline)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr


def test_splits_and_configurations_of_the_hub(served: Hub, tmp_path: Path) -> None:
    one, two = "hf://datasets/toys/one", "hf://datasets/toys/two"
    train = ["train0 0neg", "train0 1pos", "train1 0neg", "train1 1pos"]
    first, second, tested = ([f"{name} 0neg", f"{name} 1pos"] for name in ("first/tr", "second/0", "first/te"))
    expected = {
        one: train,
        f"{one}@v1/train": train,
        f"{one}@{COMMIT}/test": ["test 0neg", "test 1pos"],
        f"{one}/data/train-00001-*": train[2:],
        f"{one}/data/test-00000-of-00001.parquet": ["test 0neg", "test 1pos"],
        f"{two}/first": first,
        f"{two}/first/test": tested,
        f"{two}/second/train": second,
        two: "hf://datasets/toys/two: the data set has the configurations first, second, and one is read\n"
        "  Name it, as in hf://datasets/toys/two/first.",
        f"{two}/third": "hf://datasets/toys/two: there is no 'third'\n"
        "  Its configurations and their splits: first: train, test; second: train.",
        "hf://datasets/toys/lines": ["training"],
        "hf://datasets/toys/lines/validation": ["dev"],
        "hf://datasets/toys/script": ["made 0neg", "made 1pos"],
        "hf://datasets/toys/script/plain/train": ["made 0neg", "made 1pos"],
    }
    results, printed = read(served, tmp_path, *expected)
    assert dict(zip(expected, results, strict=True)) == expected
    assert f"{one}: the split train is read, of test, train" in printed
    assert "toys/script: the hub's own conversion to Parquet is read" in printed
    assert not [name for name in served.fetched if name.endswith(".py")]
    (served.folder / "toys" / "two" / "README.md").write_text(CARD.format(more="  default: true\n"))
    (tmp_path / "new").mkdir()
    assert read(served, tmp_path / "new", two)[0] == [second]


def test_what_was_downloaded_is_read_without_the_hub(served: Hub, tmp_path: Path) -> None:
    name = "hf://datasets/toys/one/data/train-00000-of-00002.parquet"
    (before,), _ = read(served, tmp_path, name)
    (after, missing), _ = read(served, tmp_path, name, "hf://datasets/toys/two", offline=True)
    assert before == after and "the hub could not be asked" in missing


def test_what_the_hub_does_not_have(served: Hub, tmp_path: Path) -> None:
    names = ("toys/none", "toys/one@v7", "toys/pickles", "one")
    results, _ = read(served, tmp_path, *(f"hf://datasets/{name}" for name in names))
    complaints = (
        "no such data set on the hub\n  Check the spelling; one that is private or gated needs a token in HF_TOKEN.",
        "the hub has no revision v7 of this data set",
        "none of its files can be read (.pkl)\n  Save it by `datasets`: load_dataset('toys/pickles').save_to_disk(",
        "not the name of a data set\n  As in hf://datasets/OWNER/NAME",
    )
    assert all(complaint in message for complaint, message in zip(complaints, results, strict=True)), results
    assert "train.pkl" not in served.fetched


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hf:/datasets/a/b", HubDataset("a/b")),
        ("hf://datasets/a/b@refs/convert/parquet/x/y", HubDataset("a/b", "refs/convert/parquet", "x/y")),
        ("hf://datasets/a/b@refs%2Fpr%2F1", HubDataset("a/b", "refs/pr/1")),
    ],
)
def test_names_of_data_sets(name: str, expected: HubDataset) -> None:
    assert HubDataset.of(Path(name)) == expected and HubDataset.of(Path("a/b")) is None
    with pytest.raises(UserError, match="not the name of a data set"):
        HubDataset.of(Path("hf://models/a/b"))


def test_a_fit_plans_with_labels_of_the_hub(served: Hub, tmp_path: Path) -> None:
    lines = german(400, 5)
    labelled = [{"text": f"{line} {number}", "label": number % 2} for number, line in enumerate(lines)]
    write_parquet(labelled, FEATURES, served.folder / "toys" / "labelled" / "train.parquet")
    (tmp_path / "model").mkdir()
    Bundle(bert(), cased_tokenizer(), cased_tokenizer()).save(tmp_path / "model")
    command = ("-m", "subgraft", "fit", "model", "--labels", "hf://datasets/toys/labelled", "--out", "out", "--plan")
    ended = run(served, tmp_path, *command)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    examples = (tmp_path / "out" / "text" / "train.jsonl").read_text().splitlines()
    assert {json.loads(line)["label"] for line in examples} == {"neg", "pos"}
