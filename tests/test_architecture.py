"""The shape of the house: what may import what, and what must never be there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

# The wings, and the settings of an experiment, in the order in which they may import each other: each one imports those
# before it. An experiment's settings are assembled from those of all methods, which have their stages in the same file.
FLOORS = (
    "base",
    "config",
    "subwords",
    "data",
    "evaluation",
    "modeling",
    "training",
    "embeddings",
    "config/experiment",
    "pipeline",
    "orchestration",
    "experiments",
    "interfaces",
    "contrib",
)
# The modules of the core that name parts of contrib, all of them as entries of a table: `package.module:Name`.
TABLES = {
    "config/experiment/domains.py",
    "config/models.py",
    "experiments/steps/models.py",
    "experiments/steps/vocabularies.py",
    "interfaces/cli/experiments.py",
    "interfaces/cli/vocabularies.py",
    "modeling/conditioning/variants/registry.py",
    "modeling/families/registry.py",
    "pipeline/stages/registry.py",
    "training/objectives/registry.py",
}
WINGS = tuple(floor for floor in FLOORS if "/" not in floor)
# Training has the settings of its objectives too.
LARGEST_SHARE = 0.17
HEAVY = {
    "ray": {
        "base/security/local_ray.py",
        "base/security/rendezvous.py",
        "orchestration/execution/",
        "experiments/search/",
    },
    "ray.tune": {"experiments/search/"},
    "optuna": {"experiments/search/"},
    "mlflow": {
        "base/security/tracking_gate.py",
        *(f"orchestration/tracking/{name}.py" for name in ("server", "page", "database")),
    },
    "deepspeed": {"training/deepspeed_engine.py"},
    "ctranslate2": {
        "modeling/families/family.py",
        "modeling/inference/",
        "modeling/exporting/",
    },
    "gguf": {"base/security/gguf_header.py", "modeling/exporting/gguf.py", "modeling/gguf_files.py"},
    "xllamacpp": {"modeling/inference/llama_cpp.py"},
    "peft": {"base/security/adapter_settings.py", "training/adapters.py", "modeling/lora.py"},
    "sklearn": {
        "contrib/allocation/",
        "evaluation/metrics/conditional_generation.py",
        "evaluation/metrics/untranslated.py",
    },
    "gensim": {"embeddings/initialisers/static_embeddings.py"},
}


def _package(repository: Path) -> Path:
    return repository / "platform" / "subgraft"


def _modules(repository: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(_package(repository).rglob("*.py")):
        relative = path.relative_to(_package(repository))
        yield path, relative.parts[0].removesuffix(".py")


@cache
def _imports(path: Path, *, on_import: bool = False) -> tuple[str, ...]:
    """What a module imports; on_import: without what its functions import when they run."""
    results: list[str] = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if on_import and isinstance(node, ast.FunctionDef)]
    later = {id(inner) for function in functions for inner in ast.walk(function)}
    for node in (node for node in ast.walk(tree) if id(node) not in later):
        if isinstance(node, ast.Import):
            results += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            results += (f"{node.module}.{alias.name}" for alias in node.names)
    return tuple(results)


def test_platform_is_not_a_package(repository: Path) -> None:
    """A package named `platform` would shadow the standard library's module."""
    assert not (repository / "platform" / "__init__.py").exists()


def test_imports_run_one_way(repository: Path) -> None:
    wrong = []
    for path, wing in _modules(repository):
        if wing not in WINGS:  # subgraft/__init__.py and __main__.py
            continue
        own = _height(path.relative_to(_package(repository)).with_suffix("").parts)
        for name in _imports(path):
            package, *parts = name.split(".")
            if package == "subgraft" and parts and _height(parts) > own:
                wrong.append(f"{path.name} ({FLOORS[own]}) imports {name}")
    assert not wrong


def test_only_tables_name_contrib(repository: Path) -> None:
    """That nothing of the core imports it follows from its floor."""
    naming = {
        path.relative_to(_package(repository)).as_posix()
        for path, wing in _modules(repository)
        if wing != "contrib" and "subgraft.contrib" in path.read_text(encoding="utf-8")
    }
    assert naming == TABLES


def test_parts_of_contrib_do_not_import_each_other(repository: Path) -> None:
    wrong = []
    for path in sorted((_package(repository) / "contrib").rglob("*.py")):
        for name in _imports(path):
            if name.startswith("subgraft.contrib.") and name.split(".")[2] != path.parent.name:
                wrong.append(f"{path.parent.name}/{path.name} imports {name}")
    assert not wrong


def _height(parts: Sequence[str]) -> int:
    """The floor of a module."""
    inner = "/".join(parts[:2])
    return FLOORS.index(inner if inner in FLOORS else parts[0]) if parts[0] in FLOORS else 0


LIGHT = (
    "subgraft.data.sources.",
    "subgraft.pipeline.stages.",
    "subgraft.pipeline.measurements.",
    "subgraft.embeddings.methods.",
    "subgraft.training.objectives.",
    "subgraft.contrib.",
)


def test_no_two_modules_of_a_room_import_each_other(repository: Path) -> None:
    """Not for types either, and not through a package's `__init__`. Only a stage, a measurement, a method, an objective
    and contrib, which has all of these, may import what they compute with, when they run (`tests/test_start_up.py`), as
    that takes the stage.
    """
    package = _package(repository)
    modules = {
        ".".join(("subgraft", *path.relative_to(package).with_suffix("").parts)).removesuffix(".__init__"): path
        for path, _ in _modules(repository)
        if path.parent != package  # `subgraft` exports the API, and has the version that records read
    }
    graph = {
        name: {
            one if one in modules else one.rpartition(".")[0]
            for one in _imports(path, on_import=name.startswith(LIGHT) and ".objectives.compute." not in name)
        }
        & modules.keys() - {name}
        for name, path in modules.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, with the circle


def test_the_package_holds_nothing_but_wings(repository: Path) -> None:
    package = _package(repository)
    entries = {path.name for path in package.iterdir()} - {"__pycache__"}
    assert entries == {*WINGS, "__init__.py", "__main__.py", "py.typed"}


def test_no_wing_outgrows_the_others(repository: Path) -> None:
    lines = dict.fromkeys(WINGS, 0)
    for path, wing in _modules(repository):
        if wing in lines:
            lines[wing] += len(path.read_text(encoding="utf-8").splitlines())
    whole = sum(lines.values())
    assert {wing: count for wing, count in lines.items() if count > LARGEST_SHARE * whole} == {}


def test_every_module_has_a_docstring(repository: Path) -> None:
    bare = [path for path, _ in _modules(repository) if not ast.get_docstring(ast.parse(path.read_text("utf-8")))]
    assert not bare


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
        # A conversion's own process, and even there no more than tensors.
        assert "torch.load(" not in text or (path.name == "torch_weights.py" and "weights_only=True" in text)
        assert "yaml.load(" not in text


def test_python_is_started_without_the_current_directory_on_its_path(repository: Path) -> None:
    for path, _ in _modules(repository):
        text = path.read_text(encoding="utf-8")
        assert text.count("sys.executable") == text.count('sys.executable, "-P"'), path


# Who may tell families of models apart.
KNOW_FAMILIES = ("modeling/families/", "config/models.py", "contrib/")
ABOUT_FAMILIES = {"model_type", "family"}
TYPE_QUESTIONS = {"isinstance", "issubclass"}


def _compared(node: ast.AST) -> list[ast.expr]:
    """What an expression compares or looks up, where it is one of those that choose."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Match):
        return [node.subject]
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
        return [node.slice]
    return []


def _names_family(expression: ast.expr) -> bool:
    """A model type or the name of a family; not what a `family` object is asked for."""
    asked = {id(part.value) for part in ast.walk(expression) if isinstance(part, ast.Attribute)}
    return any(
        (isinstance(part, ast.Attribute) and part.attr in ABOUT_FAMILIES)
        or (isinstance(part, ast.Name) and part.id in ABOUT_FAMILIES and id(part) not in asked)
        or (isinstance(part, ast.Subscript) and _is_text(part.slice, ABOUT_FAMILIES))
        for part in ast.walk(expression)
    )


def _is_text(node: ast.expr, values: set[str]) -> bool:
    return isinstance(node, ast.Constant) and node.value in values


def _from_transformers(tree: ast.AST) -> set[str]:
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "transformers"
        for alias in node.names
    } | {"transformers"}


def _lines_that_distinguish_families(path: Path) -> Iterator[int]:
    """Lines that compare a model type or a family, or ask whether something is of a class of transformers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = _from_transformers(tree)
    for node in ast.walk(tree):
        if any(_names_family(expression) for expression in _compared(node)):
            yield node.lineno  # type: ignore[attr-defined]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in TYPE_QUESTIONS:
            names = {part.id for argument in node.args[1:] for part in ast.walk(argument) if isinstance(part, ast.Name)}
            if names & (classes - {"PreTrainedModel"}):
                yield node.lineno


def test_only_families_tell_families_apart(repository: Path) -> None:
    results = {
        f"{path.relative_to(_package(repository)).as_posix()}:{line}"
        for path, _ in _modules(repository)
        if not path.relative_to(_package(repository)).as_posix().startswith(KNOW_FAMILIES)
        for line in _lines_that_distinguish_families(path)
    }
    assert not results


@pytest.mark.parametrize(
    "line",
    [
        'if config["model_type"] == "bert": pass',
        'x = model.family in ("a", "b")',
        "x = TABLE[model.config.model_type]",
        "from transformers import BertModel\nx = isinstance(model, BertModel | int)",
        "import transformers\nx = isinstance(model, transformers.BertModel)",
        "match config.family:\n    case 'bert': pass",
    ],
)
def test_telling_families_apart_is_noticed(line: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(line, encoding="utf-8")
    assert list(_lines_that_distinguish_families(tmp_path / "module.py"))


def test_only_objectives_compare_objectives(repository: Path) -> None:
    """Everything else asks what an objective declares in training/objectives/."""
    kinds = {"translation", "denoising", "masked", "causal"}
    asked = re.compile(r"kind|objective", re.IGNORECASE)
    wrong = []
    for path, _ in _modules(repository):
        relative = path.relative_to(_package(repository)).as_posix()
        if relative.startswith(("training/objectives/", "contrib/")):
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
