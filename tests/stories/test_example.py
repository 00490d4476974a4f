"""docs/example.py, run as it stands on a little real text, and run again."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

SIZES = {"train": 400, "dev": 20, "test": 20}
# Runs the page as an editor does, cell by cell in one namespace, and prints its last output.
RUN = """
import json, re, sys
cells = re.split(r"^# %%.*$", open(sys.argv[1], encoding="utf-8").read(), flags=re.MULTILINE)
space = {}
for cell in cells:
    exec(compile(cell, sys.argv[1], "exec"), space)
print(json.dumps([space["translations"], space["fitted"].reports["decoder"].unseen]))
"""


def _example(repository: Path, folder: Path) -> tuple[str, str]:
    """Its last line of output, and all of it."""
    environment = {**os.environ, "SUBGRAFT_HOME": str(folder / "home"), "MPLBACKEND": "agg"}
    environment.pop("MLFLOW_TRACKING_URI", None)
    done = subprocess.run(
        [sys.executable, "-c", RUN, repository / "docs" / "example.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    *message, last = done.stdout.splitlines()
    return last, "\n".join(message)


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
    first, message = _example(repository, tmp_path)
    assert "[done]" in message and first.startswith('[{"as it is": [') and int(first.rstrip("]").split()[-1]) > 100
    for made in ("example.yaml", "generator/generator.json", "fitted/model.safetensors"):
        assert (tmp_path / made).is_file()
    again, message = _example(repository, tmp_path)
    assert again == first and "[started]" not in message
