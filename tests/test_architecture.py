"""The shape of the house: what may import what, and what must never be there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

# Every room with the rooms it may look into, from the ground up.
FLOORS = [
    {"errors", "files"},
    {"config"},
    {"text"},
    {"vocabulary"},
    {"metrics"},
    {"reporting"},
    {"models"},
    {"inference"},
    {"objectives"},
    {"tasks"},
    {"similar_tokens"},
    {"generators"},
    {"initialisers"},
    {"transplanting"},
    {"learned_rows"},
    {"training"},
    {"recipes"},
    {"stages"},
    {"store"},
    {"tracking"},
    {"execution"},
    {"estimates"},
    {"experiment"},
    {"search"},
    {"cli"},
    {"__main__"},
]
HEAVY = {
    "ray": {"execution/", "search/"},
    "ray.tune": {"search/"},
    "optuna": {"search/"},
    "mlflow": {"tracking/server.py"},
    "deepspeed": {"training/deepspeed_engine.py"},
    "gensim": {"initialisers/static_training.py"},
}


def _package(repository: Path) -> Path:
    return repository / "platform" / "subgraft"


def _modules(repository: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(_package(repository).rglob("*.py")):
        relative = path.relative_to(_package(repository))
        yield path, relative.parts[0].removesuffix(".py")


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_platform_is_no_package(repository: Path) -> None:
    """A package named `platform` would shadow the standard library's module."""
    assert not (repository / "platform" / "__init__.py").exists()


def test_imports_run_one_way(repository: Path) -> None:
    height = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
    wrong = []
    for path, room in _modules(repository):
        if room == "__init__":
            continue
        for name in _imports(path):
            parts = name.split(".")
            if parts[0] == "subgraft" and len(parts) > 1 and parts[1] in height and height[parts[1]] > height[room]:
                wrong.append(f"{path.name} ({room}) imports {name}")
    assert not wrong


def test_every_room_has_its_floor(repository: Path) -> None:
    known = set().union(*FLOORS) | {"__init__"}
    assert {room for _, room in _modules(repository)} <= known


@pytest.mark.parametrize("library", sorted(HEAVY))
def test_heavy_libraries_stay_in_their_rooms(repository: Path, library: str) -> None:
    importers = {
        path.relative_to(_package(repository)).as_posix()
        for path, _ in _modules(repository)
        if any(f"{name}.".startswith(f"{library}.") for name in _imports(path))
    }
    assert importers, f"nothing imports {library}: is it still needed?"
    assert all(any(path.startswith(allowed) for allowed in HEAVY[library]) for path in importers), importers


def test_nothing_is_unpickled_and_no_archive_unpacked(repository: Path) -> None:
    for path, _ in _modules(repository):
        text = path.read_text(encoding="utf-8")
        assert "import pickle" not in text
        assert not re.search(r"extractall\(|unpack_archive|import (tarfile|zipfile)", text)
        assert "torch.load(" not in text
        assert "yaml.load(" not in text


def test_only_objectives_compare_objectives(repository: Path) -> None:
    """Everything else asks what an objective says of itself in config/objectives.py."""
    kinds = {"translation", "denoising", "masked", "causal"}
    asked = re.compile(r"kind|objective", re.IGNORECASE)
    wrong = []
    for path, room in _modules(repository):
        relative = path.relative_to(_package(repository)).as_posix()
        if room == "objectives" or relative == "config/objectives.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                parts = [node.left, *node.comparators]
                named = any(isinstance(c, ast.Constant) and c.value in kinds for part in parts for c in ast.walk(part))
                if named and asked.search(ast.unparse(node)):
                    wrong.append(f"{relative}:{node.lineno}: {ast.unparse(node)}")
            classes = r"isinstance\(.*(Translation|Denoising|Masked|Causal)(Settings|Objective)"
            if isinstance(node, ast.Call) and re.match(classes, ast.unparse(node)):
                wrong.append(f"{relative}:{node.lineno}: {ast.unparse(node)}")
    assert not wrong
