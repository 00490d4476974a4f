"""The shape of the house: what may import what, and what must never be there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

# Every room with the rooms it may look into, from the ground up.
FLOORS = [
    {"errors", "files", "jsonlines", "locks"},
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


@cache
def _imports(path: Path) -> tuple[str, ...]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    return tuple(found)


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


def test_no_two_modules_of_a_room_import_each_other(repository: Path) -> None:
    """Not for types either."""
    package = _package(repository)
    modules = {
        ".".join(("subgraft", *path.relative_to(package).with_suffix("").parts)): path for path in package.rglob("*.py")
    }
    graph = {name: {one for one in _imports(path) if one in modules and one != name} for name, path in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, with the circle


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
