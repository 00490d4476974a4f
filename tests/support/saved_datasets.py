"""Data sets as Hugging Face's `datasets` (5.2) writes them: folders of `save_to_disk`, and Parquet for the hub."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

Rows = Sequence[Mapping[str, Any]]
TEXT = {"dtype": "string", "_type": "Value"}


def classes(*names: str) -> dict[str, Any]:
    return {"names": list(names), "_type": "ClassLabel"}


def table_of(rows: Rows, features: Mapping[str, Any]) -> pa.Table:
    """With the types of `datasets` in its metadata."""
    about = json.dumps({"info": {"features": features}})
    return pa.Table.from_pylist(list(rows)).replace_schema_metadata({"huggingface": about})


def save_to_disk(rows: Rows, features: Mapping[str, Any], folder: Path, shards: int = 2) -> Path:
    """As `Dataset.save_to_disk`: Arrow's streams and two descriptions."""
    folder.mkdir(parents=True)
    names = [f"data-{shard:05}-of-{shards:05}.arrow" for shard in range(shards)]
    for shard, name in enumerate(names):
        start, end = (index * len(rows) // shards for index in (shard, shard + 1))
        part = table_of(rows[start:end], features)
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, part.schema) as stream:
            stream.write_table(part)
    state: dict[str, Any] = {
        "_data_files": [{"filename": name} for name in names],
        "_fingerprint": "fec30fd4811274d6",
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"citation": "", "description": "", "features": features}))
    return folder


def save_splits(splits: Mapping[str, Rows], features: Mapping[str, Any], folder: Path) -> Path:
    """As `DatasetDict.save_to_disk`."""
    for split, rows in splits.items():
        save_to_disk(rows, features, folder / split)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(splits)}))
    return folder


def write_parquet(rows: Rows, features: Mapping[str, Any], path: Path) -> None:
    """As `push_to_hub` writes a shard."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(table_of(rows, features), path)
