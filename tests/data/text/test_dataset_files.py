"""Folders of `datasets.save_to_disk`, read without that package: rows, splits, names of classes, damage."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest

import subgraft
from finished import separate_bundle
from saved_datasets import TEXT, classes, save_splits, save_to_disk
from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.corpora import Languages
from subgraft.data.sources.conversations import conversations_in
from subgraft.data.text.dataset_files import dataset_files, dataset_rows, is_dataset
from subgraft.data.text.text_files import TextFiles
from subgraft.interfaces.api.inputs import labelled_file, pair_files
from subgraft.interfaces.cli import main
from toys import german

TAGS = {"feature": classes("O", "B"), "_type": "List"}
FEATURES = {"text": TEXT, "label": classes("neg", "pos"), "tags": TAGS}
ROWS = [{"text": f"Text {n}.\nMore.", "label": n % 2, "tags": [0, 1]} for n in range(5)]
MESSAGES = [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "answer"}]


def test_rows_of_all_shards_have_the_names_of_their_classes(tmp_path: Path) -> None:
    folder = save_to_disk([*ROWS, {"text": "?", "label": -1, "tags": None}], FEATURES, tmp_path / "saved")
    assert is_dataset(folder) and not is_dataset(tmp_path)
    rows = [row for row, _ in dataset_rows(folder)]
    assert [row["text"] for row in rows] == [*(row["text"] for row in ROWS), "?"]
    assert [row["label"] for row in rows] == ["neg", "pos", "neg", "pos", "neg", None]
    assert rows[0]["tags"] == ["O", "B"] and rows[-1]["tags"] is None


def test_arrow_s_file_form_and_columns_of_bytes(tmp_path: Path) -> None:
    folder = save_to_disk(ROWS, FEATURES, tmp_path / "saved", shards=1)
    (file,) = dataset_files(folder)
    table = pa.table({"text": ["a"], "image": pa.array([{"bytes": b"\x89"}])})
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    assert [row for row, _ in dataset_rows(folder)] == [{"text": "a"}]


def test_the_split_is_named_or_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    splits = {"train": ROWS, "test": ROWS[:1], "validation": ROWS[:2]}
    folder = save_splits(splits, FEATURES, tmp_path / "saved")
    assert len(list(dataset_rows(folder))) == 5
    assert f"{folder}: the split train is read, of train, test, validation" in capsys.readouterr().err
    assert len(list(dataset_rows(folder, "test"))) == 1
    capsys.readouterr()
    assert len(list(dataset_rows(folder / "validation"))) == 2 and not capsys.readouterr().err
    with pytest.raises(UserError, match=r"the splits are train, test, validation.*\n.*saved/train"):
        dataset_files(folder, "unknown")
    assert len(list(dataset_rows(save_splits({"all": ROWS}, FEATURES, tmp_path / "one")))) == 5


def test_text_pairs_labels_and_conversations_are_read(tmp_path: Path) -> None:
    folder = save_to_disk(ROWS, FEATURES, tmp_path / "saved")
    assert next(TextFiles(dataset_files(folder)).documents()) == ("Text 0.", "More.")
    with labelled_file(folder) as (path,):
        records = [json.loads(line) for line in path.read_text().splitlines()]
    assert Counter(record["label"] for record in records) == {"neg": 3, "pos": 2}
    pairs = [{"translation": {"en": f"one {n}", "fr": f"un {n}"}} for n in range(4)]
    saved = save_to_disk(pairs, {"translation": {"languages": ["en", "fr"], "_type": "Translation"}}, tmp_path / "p")
    for languages in (Languages(source="en", target="fr"), Languages(source="en_XX", target="fr_XX")):
        with pair_files(saved, "no model", languages) as (_, files):
            assert [side.read_text().split("\n")[1] for side in files] == ["one 1", "un 1"]
    for named, complaint in (
        (None, "languages: the column translation has no direction"),
        (Languages(source="en", target="de"), "pairs: the column translation has en, fr, not de"),
    ):
        with pytest.raises(ArgumentError, match=complaint), pair_files(saved, "no model", named):
            pass
    by_name = {name: [turn[name] for turn in MESSAGES] for name in ("role", "content")}
    for number, messages in enumerate((MESSAGES, by_name)):
        saved = save_to_disk([{"messages": messages}], {}, tmp_path / f"chat{number}", shards=1)
        (file,) = dataset_files(saved)
        assert list(conversations_in(file, None, Counter())) == [MESSAGES]


class Features(dict[str, Any]):
    def to_dict(self) -> dict[str, Any]:
        return dict(self)


class Dataset(list[dict[str, Any]]):
    """As much of a `datasets.Dataset` as is read."""

    features = Features(FEATURES)


def test_a_dataset_in_memory_has_the_names_of_its_classes_too() -> None:
    with labelled_file(Dataset(ROWS)) as (path,):
        labels = [json.loads(line)["label"] for line in path.read_text().splitlines()]
    assert labels == ["neg", "pos", "neg", "pos", "neg"]


@pytest.mark.parametrize("call", ["text", "pairs", "labels"])
def test_a_dictionary_of_splits_in_memory_is_refused_by_name(call: str, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    separate_bundle().save(tmp_path / "model")
    arguments: dict[str, Any] = {"text": {}} if call == "pairs" else {call: True} if call == "labels" else {}
    data = {"train": Dataset(ROWS), "test": Dataset(ROWS)}
    arguments["text" if call == "text" else "pairs"] = data
    with pytest.raises(ArgumentError, match=r"a mapping of train, test\n  Give one of its splits"):
        subgraft.fit(tmp_path / "model", out=tmp_path / "out", progress=False, **arguments)


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    folder = save_to_disk(ROWS, FEATURES, tmp_path / "saved", shards=1)
    (file,) = dataset_files(folder)
    state, content = (folder / "state.json").read_text(), file.read_bytes()
    for changed, complaint in (
        (state.replace("data-", "../data-"), "a damaged data set"),
        (state.replace("data-00000-of-00001.arrow", ".."), "a damaged data set"),
        (state.replace("data-0", "data-9"), "no such file"),
        (state.replace('"_data_files": [', '"_indices_data_files": [{"filename": "i"}], "_data_files": ['), "an index"),
        ("{", "state.json"),
    ):
        (folder / "state.json").write_text(changed)
        with pytest.raises(UserError, match=complaint):
            list(dataset_rows(folder))
    (folder / "state.json").write_text(state)
    for damaged in (content[:-200], b"", b"ARROW1\0\0nothing", content.replace(b"text", b"\xff\xff\xff\xff")):
        file.write_bytes(damaged)
        with pytest.raises(UserError, match="not a readable Arrow file"):
            list(dataset_rows(folder))


class Marker:
    """Unpickled, it writes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


def test_a_pickled_type_of_an_arrow_file_is_not_loaded(tmp_path: Path) -> None:
    """Arrow's Python types of the extension arrow.py_extension_type were unpickled by early releases."""
    folder, marker = save_to_disk(ROWS, FEATURES, tmp_path / "saved", shards=1), tmp_path / "ran"
    (file,) = dataset_files(folder)
    metadata = {
        "ARROW:extension:name": "arrow.py_extension_type",
        "ARROW:extension:metadata": pickle.dumps(Marker(str(marker)), protocol=0),
    }
    schema = pa.schema([pa.field("text", pa.string(), metadata=metadata)])
    with pa.OSFile(str(file), "wb") as sink, pa.ipc.new_stream(sink, schema) as stream:
        stream.write_table(pa.table({"text": ["a"]}, schema=schema))
    assert [row for row, _ in dataset_rows(folder)] == [{"text": "a"}]
    assert list(TextFiles((file,)).documents()) == [("a",)]
    assert not marker.exists()


def test_a_fit_plans_with_a_saved_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    Path("model").mkdir()
    separate_bundle().save(Path("model"))
    pairs = [{"translation": {"de": line, "en": line[::-1]}} for line in german(400, 5)]
    save_splits({"train": pairs, "test": pairs[:2]}, {}, Path("saved"))
    command = ["fit", "model", "--pairs", "saved", "--languages", "en-de", "--out", "fitted", "--plan"]
    assert main(command) == 0, capsys.readouterr().err
    printed = capsys.readouterr()
    assert "400 pairs, en to de" in printed.out and "saved: the split train is read" in printed.err
    assert main(["fit", "model", "--pairs", "owner/name", "--languages", "en-de", "--out", "other", "--plan"]) == 2
    assert "A data set of the hub is hf://datasets/owner/name." in capsys.readouterr().err
