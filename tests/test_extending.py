"""What docs/extending.md shows works as it stands there: its files and entries, in a copy of the package."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXTENSIONS = (
    "initialiser",
    "metric",
    "family",
    "objective",
    "conditioning",
    "source",
    "task",
    "task_of_labels",
    "measurement",
)
FILE = re.compile(r"^New file `(?P<path>[^`]+)`:\n\n```python\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
ENTRY = re.compile(
    r"^In `(?P<path>[^`]+)`, at the end of `(?P<table>[\w.]+)`[^:]*:\n\n"
    r"```python\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_GROUP = r"(subgraft\.(?:metrics|families))"
ENTRY_POINT = re.compile(rf'^\[project\.entry-points\."{_GROUP}"\]\n(.*) = "(.*)"$', re.MULTILINE)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str]:
    """The extensions that work in a copy of the package, and the errors."""
    repository = Path(__file__).resolve().parents[1]
    page = (repository / "docs" / "extending.md").read_text(encoding="utf-8")
    copy, folder = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("results")
    hidden = shutil.ignore_patterns("__pycache__")
    shutil.copytree(repository / "platform", copy / "platform", ignore=hidden)
    for file in FILE.finditer(page):
        path = copy / file["path"]
        path.parent.mkdir(exist_ok=True)
        path.write_text(file["code"], encoding="utf-8")
    for entry in ENTRY.finditer(page):
        _enter(copy / entry["path"], entry["table"], entry["code"])
    _install(copy, page)
    places = os.pathsep.join(map(str, (copy / "platform", copy, repository / "tests" / "support")))
    command = [sys.executable, str(repository / "tests" / "support" / "extended_package.py"), str(folder)]
    environment = {**os.environ, "PYTHONPATH": places}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return ended.stdout.split(), ended.stderr[-3000:]


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_each_shown_extension_works(extended: tuple[list[str], str], extension: str) -> None:
    working, errors = extended
    assert extension in working, errors


def _enter(path: Path, table: str, code: str) -> None:
    """Insert a page's code into a module: its imports at the top, the rest into an assignment."""
    text = path.read_text(encoding="utf-8")
    imports = "".join(re.findall(r"^from .*\n", code, re.MULTILINE))
    code = re.sub(r"^from .*\n", "", code, flags=re.MULTILINE).strip("\n")
    node = _assignment(ast.parse(text), table.split("."))
    lines = text.splitlines(keepends=True)
    start, end = sum(map(len, lines[: node.lineno - 1])), sum(map(len, lines[: node.end_lineno]))
    value = text[start:end]
    if value.rstrip().endswith("})"):
        value = f"{value.rstrip()[:-2]}, {code}}})\n"
    else:
        value = f"{value.rstrip()[:-1].rstrip().rstrip(',')},\n{code}\n{value.rstrip()[-1]}\n"
    text = text[:start] + value + text[end:]
    future = "from __future__ import annotations\n"
    path.write_text(text.replace(future, future + imports, 1), encoding="utf-8")


def _assignment(tree: ast.AST, names: list[str]) -> ast.Assign | ast.AnnAssign:
    """The assignment to a name, or to a class's attribute."""
    for node in ast.walk(tree):
        if len(names) > 1 and isinstance(node, ast.ClassDef) and node.name == names[0]:
            return _assignment(node, names[1:])
        if len(names) == 1 and isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if ast.unparse(targets[0]) == names[0]:
                return node
    raise AssertionError(f"no assignment to {names}")


def _install(folder: Path, page: str) -> None:
    """The metadata of the page's package, as pip writes them."""
    described = folder / "mypackage-1.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: mypackage\nVersion: 1.0\n")
    points = [f"[{group}]\n{name} = {function}\n" for group, name, function in ENTRY_POINT.findall(page)]
    (described / "entry_points.txt").write_text("".join(points))
