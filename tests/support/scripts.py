"""Text in three scripts: of the real corpora where they are at hand, else English written in other letters."""

from __future__ import annotations

import gzip
from pathlib import Path

from toys import english

SCRIPTS = ("Latin", "Cherokee", "unspaced")
_CHEROKEE: dict[int, int | None] = {ord(letter): 0x13A0 + at for at, letter in enumerate("abcdefghijklmnopqrstuvwxyz")}
# Ethiopic, with no space between words.
_UNSPACED: dict[int, int | None] = {
    ord(letter): 0x1208 + 8 * at for at, letter in enumerate("abcdefghijklmnopqrstuvwxyz")
} | {ord(" "): None}
_NAMES = {"Latin": "Swahili-NT", "Cherokee": "Cherokee-NT"}


def text_in(script: str, data: Path | None, lines: int) -> list[str]:
    """So many lines at most. data: the folder of real corpora, if there is one."""
    if data is None:
        letters: dict[int, int | None] = {"Latin": {}, "Cherokee": _CHEROKEE, "unspaced": _UNSPACED}[script]
        return [line.lower().translate(letters) for line in english(lines, 1)]
    unspaced = data / "mono" / "novels" / "zh.txt.gz"
    path = unspaced if script == "unspaced" else data / "mono" / "bible-nt" / f"{_NAMES[script]}.txt.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line, _ in zip(file, range(lines), strict=False)]
