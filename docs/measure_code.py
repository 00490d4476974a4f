"""Counts the figures of the code in docs/design.md: files, lines, imports, functions that are used once.

    .venv/bin/python docs/measure_code.py [PACKAGE…]

A PACKAGE is any Python package's folder, so that other projects and earlier states can be counted the same way.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
Function = ast.FunctionDef | ast.AsyncFunctionDef


def lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def docstrings(tree: ast.Module) -> Iterator[ast.stmt]:
    """The docstrings of a module; a string in a class or module that is only stated counts as well."""
    for node in ast.walk(tree):
        for child in node.body if isinstance(node, Function | ast.ClassDef | ast.Module) else ():
            value = child.value if isinstance(child, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield child


def kinds_of_lines(text: str, tree: ast.Module) -> Counter[str]:
    """How many lines are blank, comments, docstrings, imports and other statements."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    imports = {line for node in nodes for line in lines_of(node)}
    strings = {line for node in docstrings(tree) for line in lines_of(node)}
    counts: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if number in imports:
            counts["imports"] += 1
        elif number in strings:
            counts["docstrings"] += 1
        elif not line.strip():
            counts["blank"] += 1
        else:
            counts["comments" if line.lstrip().startswith("#") else "statements"] += 1
    return counts


def private_functions_used_once(tree: ast.Module) -> int:
    """Private functions and methods of a module whose name it mentions once, apart from the definition."""
    names = Counter(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    names += Counter(node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute))
    private = [node.name for node in ast.walk(tree) if isinstance(node, Function) and node.name.startswith("_")]
    return sum(names[name] == 1 for name in private if not name.startswith("__"))


def imported_by_one(trees: dict[str, ast.Module]) -> int:
    """Modules that exactly one other module imports, by their absolute names."""
    importers: Counter[str] = Counter()
    for tree in trees.values():
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
        importers.update(imported & trees.keys())
    return sum(count == 1 for count in importers.values())


def figures(package: Path) -> dict[str, str]:
    """Each figure by its name. Empty modules count as files, and not in the median."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    lengths = {path: len(text.splitlines()) for path, text in texts.items()}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    names = {path: (package.name, *path.relative_to(package).with_suffix("").parts) for path in texts}
    modules = {".".join(names[path]): tree for path, tree in trees.items()}
    total, kinds = sum(lengths.values()), Counter[str]()
    for path, text in texts.items():
        kinds += kinds_of_lines(text, trees[path])
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = [len(lines_of(node)) for node in nodes if isinstance(node, Function)]
    folders = [path for path in package.iterdir() if path.is_dir() and any(path.rglob("*.py"))]
    shares = {name: f"{kinds[name] / total:.1%}" for name in ("statements", "imports", "docstrings", "blank")}
    return {
        "files": f"{len(texts):,}",
        "lines": f"{total:,}",
        "median file": f"{median(length for length in lengths.values() if length):.0f}",
        "files of 100 to 400 lines": f"{sum(100 <= length <= 400 for length in lengths.values()):,}",
        "files that one other imports": f"{imported_by_one(modules):,}",
        **shares,
        "functions": f"{len(functions):,}",
        "mean function": f"{sum(functions) / len(functions):.1f}",
        "private functions used once": f"{sum(map(private_functions_used_once, trees.values())):,}",
        "folders at the top": f"{len(folders):,}",
    }


def main() -> None:
    packages = [Path(word) for word in sys.argv[1:]] or [ROOT / "platform" / "subgraft"]
    counted = [figures(package.resolve()) for package in packages]
    print(f"{'':30}" + "".join(f"{package.name:>14}" for package in packages))
    for name in counted[0]:
        print(f"{name:30}" + "".join(f"{each[name]:>14}" for each in counted))


if __name__ == "__main__":
    main()
