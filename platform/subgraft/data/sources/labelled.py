"""Labelled examples of files: which files, which of their examples are held out, and a stream of them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import UserError
from subgraft.base.files import file_digest
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings, Split
from subgraft.data.sources.kind import Request, SourceKind
from subgraft.data.sources.labelled_files import ROLES, LabelledFiles, class_files, rows
from subgraft.data.sources.paths import SPLITS, find, find_file, split_file
from subgraft.data.sources.resolved_corpus import ResolvedSource, SplitFilesSource
from subgraft.data.tasks.labelled import LabelledRow, Row, UnlearnableError
from subgraft.data.text.fields import Field, Sides

if TYPE_CHECKING:
    import numpy as np

_GOLDEN = (5**0.5 - 1) / 2


class Labelled(Settings):
    """labelled: labelled examples: classes, numbers, choices, answers, tags, ranked candidates, relations, types."""

    labelled: LabelledFiles | None = None


def resolve(settings: LabelledFiles, languages: Languages, base: Path, limit: Mapping[Split, int]) -> LabelledSource:
    """Find the files of labelled examples. Raises UserError for missing ones, and for those of an unknown format."""
    files = _locate_files(settings, base)
    for path in files.values():
        if settings.format_of(path.name) is None:
            hint = "Give labelled.format, such as tsv or jsonl."
            raise UserError("the name does not show the format of the file", where=str(path), hint=hint)
    first = next(iter(files.values()))
    return LabelledSource(settings.spec.all_fields(settings, languages, rows(first, settings)), limit, files, settings)


def _locate_files(settings: LabelledFiles, base: Path) -> dict[Split, Path]:
    """The file or folder of each split that has its own."""
    if settings.files is not None:
        return {split: find_file(settings.files[split], base) for split in SPLITS if split in settings.files}
    assert settings.folder is not None  # one of the two is set
    folder = find(settings.folder, base)
    if settings.format == "folders":
        files = {split: folder / split for split in SPLITS if (folder / split).is_dir()} or {SPLITS[0]: folder}
    else:
        files = _locate_by_ending(folder, settings)
    if both := sorted(files.keys() & settings.held_out.keys()):
        hint = "Leave it out of labelled.held_out, or name the files: files: {train: …}."
        raise UserError(f"the folder has {both[0]}, which is to be held out of train", where=str(folder), hint=hint)
    if settings.held_out and "train" not in files:
        raise UserError("there is no train split to hold examples out of", where=str(folder))
    return files


def _locate_by_ending(folder: Path, settings: LabelledFiles) -> dict[Split, Path]:
    files: dict[Split, Path] = {}
    for split in SPLITS:
        candidates = [path for ending in settings.endings if (path := split_file(folder, split, ending)) is not None]
        if len(candidates) > 1:
            hint = "Give labelled.format, or labelled.files."
            raise UserError(
                f"{' and '.join(path.name for path in candidates)} are both there", where=str(folder), hint=hint
            )
        if candidates:
            files[split] = candidates[0]
    if not files:
        names = f"{{train,dev,test}}.{{{','.join(settings.endings)}}}[.gz]"
        hint = "Name the files: files: {train: …, dev: …, test: …}; for SQuAD's JSON write format: squad."
        raise UserError(f"contains no labelled examples: {names} expected", where=str(folder), hint=hint)
    return files


@dataclass(frozen=True)
class LabelledSource(SplitFilesSource):
    """Labelled examples in one file per split, or folder of classes; splits without one are held out of train.

    Unusable rows are left out and counted; those of the training file are counted before examples are held out.
    """

    files: Mapping[Split, Path]
    settings: LabelledFiles
    _dropped: dict[Split, Counter[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    labelled = True

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split in self.files or split in self.settings.held_out)

    def paths(self, split: Split) -> tuple[Path, ...]:
        path = self._path_of(split)
        return tuple(class_files(path)) if path.is_dir() else (path,)

    def remarks(self, split: Split) -> Mapping[str, int]:
        return {reason: count for reason, count in self._dropped.get(split, {}).items() if count}

    def _path_of(self, split: Split) -> Path:
        return self.files["train"] if split in self.settings.held_out else self.files[split]

    def _origin(self) -> dict[str, object]:
        form = self.settings.model_dump(mode="json", exclude={"folder", "files"}, exclude_defaults=True)
        return {"labelled": form | {"task": self.settings.task}, "files": self._contents}

    @cached_property
    def _contents(self) -> dict[Split, str]:
        """The digest of each split's file, or of the names and digests of its classes' files."""
        contents: dict[Split, str] = {}
        for split, path in self.files.items():
            files = class_files(path) if path.is_dir() else []
            lines = "".join(f"{file.relative_to(path).as_posix()}\t{file_digest(file)}\n" for file in files)
            contents[split] = hashlib.sha256(lines.encode()).hexdigest() if files else file_digest(path)
        return contents

    def _examples(self, path: Path, counts: Counter[str]) -> Iterator[tuple[int, Sides]]:
        return _examples_of(rows(path, self.settings), self.settings, len(self.fields), counts)

    def _segments(self, split: Split) -> Iterator[Sides]:
        counts = Counter[str]()
        held_out = split in self.settings.held_out
        self._dropped[split] = Counter() if held_out else counts
        examples_of_file = self._examples(self._path_of(split), counts)
        if self.settings.held_out and (held_out or split == "train"):
            split_number = SPLITS.index(split)
            in_split = (self._groups.splits == split_number).tolist()
            return (cells for group, cells in examples_of_file if in_split[group])
        return (cells for _, cells in examples_of_file)

    @cached_property
    def _groups(self) -> _Groups:
        """The groups of the training file.

        Groups are in random order or, without a seed, ordered by the fractional part of their number times the golden
        ratio, so that any prefix of the order is evenly spaced. Dev takes the first groups until it has its examples,
        then test.
        """
        import numpy as np

        sizes = np.array(_group_sizes(self._examples(self.files["train"], Counter())))
        seed, splits = self.settings.seed, np.zeros(len(sizes), dtype=np.int8)
        fractions = np.arange(1, len(sizes) + 1) * _GOLDEN % 1
        order = (
            np.argsort(fractions, kind="stable")
            if seed is None
            else np.random.default_rng(seed).permutation(len(sizes))
        )
        start = 0
        for split in (split for split in SPLITS if split in self.settings.held_out):
            totals = np.cumsum(sizes[order[start:]])
            taken = int(np.searchsorted(totals, self.settings.held_out[split])) + 1
            splits[order[start : start + taken]] = SPLITS.index(split)
            start += taken
        if start >= len(sizes):
            available = f"{sizes.sum():,} examples" + (f" in {len(sizes):,} groups" if len(sizes) < sizes.sum() else "")
            what = f"{sum(self.settings.held_out.values()):,} examples are to be held out of {available}"
            raise UserError(what, where=str(self.files["train"]), hint="Lower labelled.held_out.")
        return _Groups(sizes, splits)

    def _count_split(self, split: Split) -> int:
        if split in self.settings.held_out:
            return int(self._groups.sizes[self._groups.splits == SPLITS.index(split)].sum())
        count, class_fields = 0, [index for index, each in enumerate(self.fields) if each.has_classes]
        classes = {index: set[str]() for index in class_fields}
        for cells in self._segments(split):
            count += 1
            for index, seen in classes.items():
                seen.update(self.fields[index].classes(cells[index]))
        where = str(self._path_of(split))
        if count == 0:
            from subgraft.data.text.cleaning import dropped_in_words

            dropped = ", ".join(
                f"{number:,} {reason}" for reason, number in dropped_in_words(self.remarks(split)).items()
            )
            raise UserError(f"no example for {self.settings.task} ({dropped or 'empty'})", where=where)
        if split == "train":
            for index, seen in classes.items():
                require_classes(self.fields[index], seen, where)
        return count


def require_classes(field: Field, classes: Iterable[str], where: str) -> None:
    """Raises UserError if there are fewer than two training classes."""
    if len(seen := {*classes}) < 2:
        has = f"only '{next(iter(seen))}'" if seen else "none"
        hint = "At least two are required. Is it the right column?"
        raise UserError(f"the training examples have {has} as {field.name}", where=where, hint=hint)


def _examples_of(
    rows: Iterable[Row], settings: LabelledFiles, cells_of_example: int, counts: Counter[str]
) -> Iterator[tuple[int, Sides]]:
    """The examples of rows, each with the number of its group; `counts` receives those left out, by reason.

    An example with another number of cells has more or fewer choices than the first one, and is left out too.
    """
    task, columns = settings.spec, {role: settings.columns(role) for role in ROLES}  # looked up once, not for every row
    grouping = task.grouping() if task.grouping else None
    group, previous = -1, None
    for row in rows:
        try:
            parsed = tuple(task.examples(LabelledRow(row, settings, columns, counts)))
        except UnlearnableError as reason:
            counts[str(reason)] += 1
            continue
        if any(len(cells) != cells_of_example for cells in parsed):
            counts["other_choices"] += 1
            continue
        key = row.group
        if grouping is not None:
            grouped = [grouping(cells, row.where) for cells in parsed]
            parsed, key = tuple(cells for cells, _ in grouped), row.group or grouped[0][1]
        group += key is None or key != previous
        previous = key
        for cells in parsed:
            yield group, cells


@dataclass(frozen=True)
class _Groups:
    """The number of examples of each group [n], and the number of its split [n]."""

    sizes: np.ndarray
    splits: np.ndarray


def _group_sizes(grouped: Iterable[tuple[int, Sides]]) -> list[int]:
    sizes = list[int]()
    for group, _ in grouped:
        sizes += [0] * (group + 1 - len(sizes))
        sizes[group] += 1
    return sizes


def _resolve(request: Request) -> ResolvedSource:
    return resolve(request.settings, request.pair, request.base, request.limit)


LABELLED = SourceKind(name="labelled", fields=Labelled, resolve=_resolve, in_together=False)
