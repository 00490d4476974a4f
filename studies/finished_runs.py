"""Finished runs of a study, which goes on where it stopped, and the exit code of its command."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import Field, asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from subgraft.base.errors import SubgraftError


class Dataclass(Protocol):
    """Any."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


R = TypeVar("R", bound=Dataclass)


class FinishedRuns(Generic[R]):
    """A line of JSON for each. done: those that were there, and those that were added."""

    def __init__(self, path: Path, kind: type[R]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.done = [kind(**json.loads(line)) for line in lines]

    def add(self, run: R) -> None:
        self.done.append(run)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(run)) + "\n")


def write_results(results: Sequence[Dataclass], table: str, out: Path) -> None:
    """Write results.jsonl and table.md to a folder, and print the table."""
    out.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(asdict(each)) + "\n" for each in results)
    (out / "results.jsonl").write_text(lines, encoding="utf-8")
    (out / "table.md").write_text(table, encoding="utf-8")
    print(table, end="")


def exit_code(name: str, study: Callable[[], None]) -> int:
    """Of a study's command; a mistake is printed on stderr."""
    try:
        study()
    except SubgraftError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    return 0
