"""Find the files of corpora: next to a configuration, or in the folder of SUBGRAFT_DATA."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.files import require_file, require_path
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Split

SPLITS: tuple[Split, ...] = ("train", "dev", "test")


def data_folder() -> Path | None:
    """The folder of corpora in SUBGRAFT_DATA, if it is set."""
    path = os.environ.get("SUBGRAFT_DATA")
    return Path(path) if path else None


def require_data_folder(contents: str) -> Path:
    """The folder in SUBGRAFT_DATA. Raises UserError with its required contents if SUBGRAFT_DATA is not set."""
    folder = data_folder()
    if folder is None:
        raise UserError("needs real text", hint=f"Set SUBGRAFT_DATA to a folder that holds {contents}.")
    return folder


def find(name: str, base: Path) -> Path:
    """A file or folder in `base`, else under SUBGRAFT_DATA. Raises UserError with the searched paths."""
    candidates = [base / require_path(Path(name)).expanduser()]
    data = data_folder()
    if data is not None:
        candidates.append(data / name)
    path = next((path for path in candidates if path.exists()), None)
    if path is None:
        searched = ", ".join(str(path) for path in dict.fromkeys(candidates))
        hint = "" if data else "SUBGRAFT_DATA, the folder of corpora to look in, is not set."
        raise UserError(f"no such file or folder (looked at {searched})", where=name, hint=hint)
    return path


def find_file(name: str, base: Path) -> Path:
    """A file, as in `find`. Raises UserError for a folder or a pipe."""
    return require_file(find(name, base))


def split_files(folder: Path, codes: Sequence[str]) -> dict[Split, tuple[Path, ...]]:
    """The files {train,dev,test}.{code}[.gz] of every split the folder has.

    Raises UserError if there is no split, or if a split lacks one of the files.
    """
    files: dict[Split, tuple[Path, ...]] = {}
    for split in SPLITS:
        sides = {code: split_file(folder, split, code) for code in codes}
        missing = [code for code, path in sides.items() if path is None]
        if not missing:
            files[split] = tuple(path for path in sides.values() if path is not None)
        elif len(missing) < len(codes):
            others = "the other side is" if len(codes) == 2 else "others are"
            raise UserError(f"{split}.{missing[0]} is missing, {others} there", where=str(folder))
    if not files:
        names = " and ".join(f"{{train,dev,test}}.{code}[.gz]" for code in codes)
        raise UserError(f"contains no corpus: {names} expected", where=str(folder))
    return files


def pair_codes(folder: Path, languages: Languages) -> tuple[str, ...]:
    """The file endings of the sides of a pair, or of one language, in a folder.

    Equal languages are one side, or, in a folder without such files, a pair {split}.{source,target}.
    """
    codes = tuple(dict.fromkeys((languages.source, languages.target)))
    if len(codes) == 1 and not any(split_file(folder, split, codes[0]) for split in SPLITS):
        return ("source", "target") if any(split_file(folder, split, "target") for split in SPLITS) else codes
    return codes


def single_files(folder: Path, ending: str) -> dict[Split, Path]:
    """The files {train,dev,test}.{ending}[.gz] of every split the folder has. Raises UserError if there is none."""
    sides = {split: split_file(folder, split, ending) for split in SPLITS}
    files = {split: path for split, path in sides.items() if path is not None}
    if not files:
        raise UserError(f"contains no corpus: {{train,dev,test}}.{ending}[.gz] expected", where=str(folder))
    return files


def split_file(folder: Path, split: Split, code: str) -> Path | None:
    """{split}.{code} or {split}.{code}.gz, if it exists."""
    return plain_or_zipped(folder / f"{split}.{code}")


def plain_or_zipped(path: Path) -> Path | None:
    """The file, or its .gz version, if it exists."""
    return next((candidate for candidate in (path, path.with_name(f"{path.name}.gz")) if candidate.is_file()), None)


def existing(path: Path) -> Path:
    """The file, or its .gz version. Raises UserError with the folder's files of that kind if there is neither."""
    file = plain_or_zipped(path)
    if file is None:
        available = sorted(each.name for each in path.parent.glob(f"*{path.suffix}*"))
        hint = f"The folder has: {', '.join(available[:8])}{', …' if len(available) > 8 else ''}." if available else ""
        raise UserError(f"no such file: {path.name}[.gz]", where=str(path.parent), hint=hint)
    return file


def one_file_per_split(paths: str | Mapping[Split, str], ending: str, base: Path) -> Mapping[Split, Path]:
    """The files {train,dev,test}.{ending}[.gz] of a folder, or those that are named."""
    if isinstance(paths, str):
        return single_files(find(paths, base), ending)
    return {split: find_file(name, base) for split, name in paths.items()}
