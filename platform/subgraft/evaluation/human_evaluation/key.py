"""The key of a blind sheet: which system wrote each text. Judges must not see it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from subgraft.base.errors import UserError
from subgraft.base.files import make_private, require_path

FORMAT = 1
_KEY = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True)
class Written:
    """Who wrote a text, under which seed, for which source of the run."""

    system: str
    seed: int
    item: int


@dataclass(frozen=True)
class Key:
    """run: whose texts they are.  seed: of items, orders and keys.  questions: each answered from 0 to `most`."""

    run: str
    seed: int
    questions: tuple[str, ...]
    most: int
    texts: Mapping[str, Written]

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(written.system for written in self.texts.values()))

    def write(self, file: Path) -> None:
        """To a file that only this user can read."""
        make_private(file, json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Key:
        """Raises UserError for another file."""
        if not require_path(file).is_file():
            raise UserError("there is no such file", where=str(file))
        try:
            return _parsed(json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            hint = "`subgraft judge make` writes one, where --key says."
            raise UserError("this is not the key of a blind sheet", where=str(file), hint=hint) from None


def _parsed(found: Any) -> Key:
    if found["format"] != FORMAT:
        raise ValueError
    texts = {
        name: Written(str(one["system"]), int(one["seed"]), int(one["item"])) for name, one in found["texts"].items()
    }
    questions, most = tuple(map(str, found["questions"])), int(found["most"])
    if not texts or not questions or most < 1 or not all(map(_KEY.fullmatch, texts)):
        raise ValueError
    return Key(str(found["run"]), int(found["seed"]), questions, most, texts)
