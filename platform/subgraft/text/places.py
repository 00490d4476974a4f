"""Where the files of corpora lie: beside a configuration, or in the folder that SUBGRAFT_DATA names."""

from __future__ import annotations

import json
import os
from pathlib import Path

from subgraft.config.base import Split
from subgraft.config.corpora import Languages
from subgraft.errors import UserError

SPLITS: tuple[Split, ...] = ("train", "dev", "test")


def data_folder() -> Path | None:
    """The folder of corpora that SUBGRAFT_DATA names, if it names one."""
    named = os.environ.get("SUBGRAFT_DATA")
    return Path(named) if named else None


def find(name: str, base: Path) -> Path:
    """A file or folder in `base`, else under SUBGRAFT_DATA. Raises UserError naming the places looked at."""
    places = [base / Path(name).expanduser()]
    data = data_folder()
    if data is not None:
        places.append(data / name)
    found = next((place for place in places if place.exists()), None)
    if found is None:
        looked = ", ".join(str(place) for place in dict.fromkeys(places))
        hint = "" if data else "SUBGRAFT_DATA, the folder of corpora to look in, is not set."
        raise UserError(f"no such file or folder (looked at {looked})", where=name, hint=hint)
    return found


def find_file(name: str, base: Path) -> Path:
    """As `find`, and a folder is refused."""
    found = find(name, base)
    if not found.is_file():
        raise UserError("a file was expected, this is a folder", where=str(found))
    return found


def split_files(folder: Path, languages: Languages) -> dict[Split, tuple[Path, ...]]:
    """The files {train,dev,test}.{language}[.gz] of every split the folder has.

    Where both languages agree they are one side, or, in a folder without such files, a pair {split}.{source,target}.
    A folder that `corpora get` made has `source` and `target` in place of languages.
    Raises UserError where there is no split, or a split with one side only.
    """
    codes = tuple(dict.fromkeys((languages.source, languages.target)))
    if (folder / "corpus.json").is_file():
        codes = ("source", "target")[: 2 if _holds_pairs(folder / "corpus.json") else len(codes)]
    elif len(codes) == 1 and not any(_side(folder, split, codes[0]) for split in SPLITS):
        codes = ("source", "target") if any(_side(folder, split, "target") for split in SPLITS) else codes
    found: dict[Split, tuple[Path, ...]] = {}
    for split in SPLITS:
        sides = [_side(folder, split, code) for code in codes]
        missing = [code for code, path in zip(codes, sides, strict=True) if path is None]
        if not missing:
            found[split] = tuple(path for path in sides if path is not None)
        elif len(missing) < len(codes):
            raise UserError(f"{split}.{missing[0]} is missing, the other side is there", where=str(folder))
    if not found:
        names = " and ".join(f"{{train,dev,test}}.{code}[.gz]" for code in codes)
        raise UserError(f"holds no corpus: {names} expected", where=str(folder))
    return found


def single_files(folder: Path, ending: str) -> dict[Split, Path]:
    """The files {train,dev,test}.{ending}[.gz] of every split the folder has. Raises UserError where there is none."""
    sides = {split: _side(folder, split, ending) for split in SPLITS}
    found = {split: path for split, path in sides.items() if path is not None}
    if not found:
        raise UserError(f"holds no corpus: {{train,dev,test}}.{ending}[.gz] expected", where=str(folder))
    return found


def _holds_pairs(record: Path) -> bool:
    """Whether a corpus that `corpora get` made has two sides in one language."""
    try:
        told = json.loads(record.read_text(encoding="utf-8"))
        return not told["monolingual"] and len(set(told["languages"])) == 1
    except (ValueError, KeyError, TypeError):
        return False


def _side(folder: Path, split: Split, code: str) -> Path | None:
    plain = folder / f"{split}.{code}"
    return next((path for path in (plain, plain.with_name(f"{plain.name}.gz")) if path.is_file()), None)
