"""The text that runs read, as MLflow's datasets: its name, how much there is, and its digest; none of the text.

MLflow shows them beside a run, and finds the runs that read the same text by their digest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import sha256_of

CORPUS = "corpus"
DIGEST_LENGTH = 32  # MLflow takes 36 characters at most


def described(record: Record, directory: Path, contexts: Mapping[str, str]) -> list[Mapping[str, str]]:
    """The splits of a corpus by their context in a run (`training`, `validation`, `test`), where it has them.

    contexts: by the name of the split.
    """
    sizes = record.summary.get("sizes")
    found = [split for split in contexts if isinstance(sizes, Mapping) and sizes.get(split)]
    return [
        {
            "name": f"{record.name.removeprefix(f'{CORPUS} ')}/{split}",
            "digest": _digest(record, split),
            "source": json.dumps({"uri": str(directory)}),
            "schema": json.dumps({"mlflow_colspec": _columns(record, split)}),
            "profile": json.dumps({"num_rows": record.summary["sizes"][split]}),
            "context": contexts[split],
        }
        for split in found
    ]


def _digest(record: Record, split: str) -> str:
    files = [[entry.path, entry.sha256] for entry in record.files if entry.path.startswith(f"{split}.")]
    return sha256_of(files)[:DIGEST_LENGTH]


def _columns(record: Record, split: str) -> list[Mapping[str, object]]:
    fields = (entry.path.split(".", 1)[1] for entry in record.files if entry.path.startswith(f"{split}."))
    return [{"type": "string", "name": field, "required": True} for field in fields]
