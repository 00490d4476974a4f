"""Tables of Hugging Face's `datasets`: folders that `save_to_disk` wrote, and data sets of the hub, a split of each.

Files are read as Arrow, Parquet, JSON lines and text. Nothing of a data set runs, and nothing of it is unpickled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.base.files import require_file, require_path
from subgraft.data.text import reading
from subgraft.data.text.hub_datasets import HubDataset, chosen_split

# Of a data set with several splits: a fit holds out its own dev and test text, a finished model is scored on test.
TRAIN, TEST = "train", "test"
_STATE, _DESCRIPTION, _SPLITS = "state.json", "dataset_info.json", "dataset_dict.json"


def is_dataset(path: Path) -> bool:
    """Whether a path is a data set of the hub (hf://datasets/OWNER/NAME), or a folder that `save_to_disk` wrote.

    Raises UserError for what no file can be called.
    """
    if HubDataset.named_by(path):
        return True
    require_path(path)
    return (path / _SPLITS).is_file() or ((path / _STATE).is_file() and (path / _DESCRIPTION).is_file())


def dataset_files(path: Path, split: str = TRAIN) -> tuple[Path, ...]:
    """The files of one split of a data set, whose name is printed if there are several.

    Args:
        path: A folder or a data set of the hub; its last part may name the split.
        split: The one that is read if the path names none and there are several.

    Raises:
        UserError: There is no such data set or split, or its files cannot be read.
        OperationalError: The hub cannot be reached.
    """
    if dataset := HubDataset.of(path):
        return dataset.files(split)
    if (path / _SPLITS).is_file():
        splits = _names(json_io.read_object(path / _SPLITS).get("splits"), path / _SPLITS)
        chosen = chosen_split(str(path), splits, split)
        return _saved_files(path / chosen)
    return _saved_files(path)


def _saved_files(folder: Path) -> tuple[Path, ...]:
    state = json_io.read_object(folder / _STATE)
    if state.get("_indices_data_files") or state.get("_indices_files"):
        hint = "Save it again: dataset.flatten_indices().save_to_disk(FOLDER)."
        raise UserError("the rows are selected by an index in another file", where=str(folder), hint=hint)
    files = state.get("_data_files")
    listed = [entry.get("filename") for entry in files if isinstance(entry, dict)] if isinstance(files, list) else None
    return tuple(require_file(folder / name) for name in _names(listed, folder / _STATE))


def _names(values: Any, where: Path) -> list[str]:
    """Names of entries of a folder. Raises UserError for anything else, such as a path that leaves it."""
    if isinstance(values, list) and values and all(_is_name(value) for value in values):
        return values
    raise UserError("a damaged data set: names of its files are expected", where=str(where))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value not in ("", ".", "..") and "/" not in value and "\\" not in value


def dataset_rows(path: Path, split: str = TRAIN) -> Iterator[tuple[dict[str, Any], str]]:
    """The rows of a data set and their places, without columns of bytes. Classes have their names; unknown are None."""
    for file in dataset_files(path, split):
        features = features_of(file)
        classes = {name: feature for name, feature in features.items() if _has_classes(feature)}
        for number, row in enumerate(table_rows(file), 1):
            for name in classes.keys() & row.keys():
                row[name] = _with_names(classes[name], row[name])
            yield row, f"{file}: row {number}"


def table_rows(file: Path) -> Iterator[dict[str, Any]]:
    """The rows of a file of a data set, by its ending. Raises UserError if it cannot be read."""
    suffix = Path(file.name.lower().removesuffix(".gz")).suffix
    if suffix == ".parquet":
        return reading.parquet_rows(file, with_bytes=False)
    if suffix == ".arrow":
        return reading.arrow_rows(file, with_bytes=False)
    if suffix in (".jsonl", ".ndjson"):
        return json_io.objects(reading.json_lines(file), file)
    return ({"text": line} for line in reading.lines(file))


def features_of(file: Path) -> Mapping[str, Any]:
    """The types that `datasets` gave the columns of a file of Arrow or Parquet; empty if it wrote none."""
    if file.suffix.lower() not in (".parquet", ".arrow"):
        return {}
    try:
        about = json_io.parse_object(reading.table_metadata(file).get(b"huggingface", b"{}"))
    except ValueError:
        return {}
    info = about.get("info")
    features = info.get("features") if isinstance(info, dict) else None
    return features if isinstance(features, dict) else {}


def with_class_names(record: Mapping[str, Any], features: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the names of its classes in place of their numbers."""
    return {name: _with_names(features.get(name), value) for name, value in record.items()}


def _has_classes(feature: Any) -> bool:
    if isinstance(feature, dict):
        return feature.get("_type") == "ClassLabel" or any(map(_has_classes, feature.values()))
    return isinstance(feature, list) and any(map(_has_classes, feature))


def _with_names(feature: Any, value: Any) -> Any:
    """The value of a feature, whose classes are numbers: with their names; None for the -1 of an unknown class."""
    if isinstance(feature, list):
        feature = {"_type": "List", "feature": feature[0] if feature else None}
    if not isinstance(feature, dict) or value is None:
        return value
    kind = feature.get("_type")
    if kind == "ClassLabel":
        return _class_name(feature.get("names"), value)
    if kind in ("List", "LargeList", "Sequence"):
        inner = feature.get("feature")
        if isinstance(value, list):
            return [_with_names(inner, item) for item in value]
        if isinstance(value, dict) and isinstance(inner, dict):  # lists by name, of a list of records
            return {name: _with_names([inner.get(name)], item) for name, item in value.items()}
    if not isinstance(kind, str) and isinstance(value, dict):
        return with_class_names(value, feature)
    return value


def _class_name(names: Any, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int) or not isinstance(names, list):
        return value
    if value == -1:
        return None
    return names[value] if 0 <= value < len(names) and isinstance(names[value], str) else value
