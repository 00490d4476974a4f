"""Counts the figures of the code in docs/design.md: files, lines, imports, folders.

    .venv/bin/python docs/measure_code.py [PACKAGE]

PACKAGE is any Python package's folder, so that other projects can be counted the same way.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent


def import_lines(tree: ast.Module) -> int:
    """How many lines of a module its imports take, also those within functions."""
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in statements)


def figures(package: Path) -> dict[str, str]:
    """Each figure by its name. Empty modules count as files, and not in the median."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(package.rglob("*.py"))}
    lengths = {path: len(text.splitlines()) for path, text in texts.items()}
    total = sum(lengths.values())
    trees = [ast.parse(text) for text in texts.values()]
    imports = sum(map(import_lines, trees))
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    folders = [path for path in package.iterdir() if path.is_dir() and any(path.rglob("*.py"))]
    return {
        "files": f"{len(texts):,}",
        "lines": f"{total:,}",
        "median file": f"{median(length for length in lengths.values() if length):.0f}",
        "files of 100 to 400 lines": f"{sum(100 <= length <= 400 for length in lengths.values()):,}",
        "lines that import": f"{imports / total:.1%}",
        "mean function": f"{sum(functions) / len(functions):.1f}",
        "folders at the top": f"{len(folders):,}",
    }


def main() -> None:
    package = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "platform" / "subgraft"
    for name, figure in figures(package).items():
        print(f"{name:28}{figure:>10}")


if __name__ == "__main__":
    main()
