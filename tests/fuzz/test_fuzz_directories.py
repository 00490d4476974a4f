"""Working directories in which anything may lie: no command runs what it finds there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st

from canaries import CANARY, Canaries
from fuzzing import fuzzed, tally
from torch_form import published

pytestmark = pytest.mark.slow

MODULES = (
    "torch",
    "subgraft",
    "safetensors",
    "json",
    "encodings",
    "numpy",
    "sitecustomize",
    "site",
    "ray",
    "os",
    "_ctypes",
)
# Of a module, where {} is its name: files that Python imports, and files of settings that libraries read.
FORMS = ("{}.py", "{}/__init__.py", "{}.pth", "{}/__main__.py", "lib/python3/site-packages/{}.py", "__pycache__/{}.py")
SETTINGS = {
    "pyvenv.cfg": "home = .\ninclude-system-site-packages = true\n",
    "matplotlibrc": "backend: module://{marker}\ntext.usetex: True\n",
    "setup.cfg": "[options]\n",
    "pyproject.toml": "[tool]\n",
    ".env": "PYTHONPATH=.\nPYTHONSTARTUP=torch.py\n",
    "conftest.py": "import torch\n",
}
COMMANDS = (("convert", "model", "--out", "out"), ("plan", "none.yaml"), ("store", "list"), ("corpora", "list"))


@fuzzed(
    60,
    planted=st.sets(st.tuples(st.sampled_from(MODULES), st.sampled_from(FORMS)), max_size=8),
    settings=st.sets(st.sampled_from(sorted(SETTINGS))),
    command=st.sampled_from(COMMANDS),
)
def test_nothing_of_it_runs(
    planted: set[tuple[str, str]], settings: set[str], command: tuple[str, ...], tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "case", ignore_errors=True)
    canaries = Canaries.at(tmp_path / "case")
    text = CANARY.format(marker=str(canaries.marker))
    for module, form in planted:
        path = canaries.folder / form.format(module)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if path.suffix == ".py" else f"import sys; {text.splitlines()[1]}")
    for name in settings:
        (canaries.folder / name).write_text(SETTINGS[name].replace("{marker}", "torch"))
    published(canaries.folder / "model")
    tally.inputs += 1
    said = canaries.run(command)  # fails where any ran
    assert "Traceback" not in said and "CODE" in said, said
