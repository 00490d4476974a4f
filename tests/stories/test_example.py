"""docs/example.py, run in a notebook as it stands on a little real text, and run again."""

from __future__ import annotations

import base64
import gzip
import os
import re
from itertools import islice
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

SIZES = {"train": 400, "dev": 20, "test": 20}
RESULT = "print([translations, fitted.reports['decoder'].unseen])"


def _outputs(page: Path, folder: Path) -> list[Any]:
    """What the cells of the page show, and in the end the result."""
    parts = re.split(r"^# %%", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    cells = [part.partition("\n")[2] for part in parts if not part.startswith(" [markdown]")]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (*cells, RESULT)])
    environment = {**os.environ, "SUBGRAFT_HOME": str(folder / "home")}
    environment.pop("MLFLOW_TRACKING_URI", None)
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=place).execute(env=environment)
    return [output for cell in notebook.cells for output in cell.outputs]


def _text(outputs: list[Any]) -> list[str]:
    """All lines, printed or displayed: rich displays what it prints in a notebook."""
    parts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return [line for part in parts for line in part.splitlines()]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.ray
def test_the_example_runs_on_real_text_and_repeats(repository: Path, mirror: Path, tmp_path: Path) -> None:
    for folder, corpus in (("everyday", "tatoeba"), ("manuals", "itdocs")):
        (tmp_path / folder).mkdir()
        for split, size in SIZES.items():
            for language in ("en", "fr"):
                with gzip.open(mirror / "en-fr" / corpus / f"{split}.{language}.gz", "rb") as file:
                    (tmp_path / folder / f"{split}.{language}").write_bytes(b"".join(islice(file, size)))
    outputs = _outputs(repository / "docs" / "example.py", tmp_path)
    *message, first = _text(outputs)
    assert any("[done]" in line for line in message)
    assert first.startswith("[{'as it is': [") and int(first.rstrip("]").split()[-1]) > 100
    for made in ("example.yaml", "generator/generator.json", "fitted/model.safetensors", "finetuned/model.safetensors"):
        assert (tmp_path / made).is_file()
    shown = [output.data for output in outputs if "data" in output]
    assert any("text/html" in data and "bits per character" in data["text/html"] for data in shown)
    (picture,) = (data["image/png"] for data in shown if "image/png" in data)
    assert base64.b64decode(picture).startswith(b"\x89PNG")
    *message, again = _text(_outputs(repository / "docs" / "example.py", tmp_path))
    assert again == first and not any("[started]" in line for line in message)
