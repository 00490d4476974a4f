"""Monolingual text without splits: one file per language, or one file of lines tagged with their language."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from subgraft.base.errors import UserError
from subgraft.base.files import file_digest
from subgraft.config.settings_base import Split
from subgraft.config.source_files import PlainTexts
from subgraft.data.sources.paths import SPLITS
from subgraft.data.sources.resolved_corpus import FilesSource, ResolvedSource, SeveralSources
from subgraft.data.text import reading
from subgraft.data.text.fields import Sides


@dataclass(frozen=True)
class UnsplitSource(FilesSource):
    """Files of one language without splits: held-out text becomes dev and test, the rest train."""

    files: tuple[Path, ...]
    settings: PlainTexts

    on_disk = True

    @property
    def splits(self) -> tuple[Split, ...]:
        return tuple(split for split in SPLITS if split == "train" or split in self.settings.held_out)

    def paths(self, split: Split) -> tuple[Path, ...]:
        del split
        return self.files

    @property
    def _digests(self) -> list[str]:
        return [file_digest(path) for path in self.files]


@dataclass(frozen=True)
class PlainSource(UnsplitSource):
    """The text of one language in one file; `name` is its tag in a file of `name<TAB>segment` lines."""

    name: str

    @property
    def _file(self) -> Path:
        return self.files[0]

    def _origin(self) -> dict[str, object]:
        form: dict[str, object] = {"held_out": dict(sorted(self.settings.held_out.items())), "seed": self.settings.seed}
        form |= {"name": self.name} if self.settings.tagged else {}
        return {"plain": form, "files": self._digests}

    def _segments(self, split: Split) -> Iterator[Sides]:
        splits = self._splits
        return ((line,) for index, line in enumerate(self._lines()) if splits.get(index, "train") == split)

    def _count_split(self, split: Split) -> int:
        held_out = self.settings.held_out
        return self._count - sum(held_out.values()) if split == "train" else held_out[split]

    @cached_property
    def _count(self) -> int:
        count, held_out = sum(1 for _ in self._lines()), sum(self.settings.held_out.values())
        if count == 0:
            what = f"no line of '{self.name}'" if self.settings.tagged else "an empty corpus"
            raise UserError(what, where=str(self._file))
        if held_out >= count:
            what = f"{held_out:,} segments are to be held out of {count:,} of '{self.name}'"
            raise UserError(what, where=str(self._file), hint="Lower plain.held_out.")
        return count

    @cached_property
    def _splits(self) -> dict[int, Split]:
        """The split of each held-out line."""
        count, dev = self._count, self.settings.held_out.get("dev", 0)
        held_out_count = dev + self.settings.held_out.get("test", 0)
        if self.settings.seed is not None:
            sampled = np.random.default_rng(self.settings.seed).choice(count, held_out_count, replace=False)
            return {index: "dev" if rank < dev else "test" for rank, index in enumerate(sampled.tolist())}
        # The held-out lines are evenly spaced in the text, and the dev lines are evenly spaced among them.
        return {
            (2 * rank + 1) * count // (2 * held_out_count): "dev"
            if (rank + 1) * dev // held_out_count > rank * dev // held_out_count
            else "test"
            for rank in range(held_out_count)
        }

    def _lines(self) -> Iterator[str]:
        if self.settings.tagged is None:
            yield from reading.lines(self._file)
            return
        for number, line in enumerate(reading.lines(self._file), 1):
            name, tab, text = line.partition("\t")
            if not tab:
                hint = "Lines are expected as in: en<TAB>text."
                raise UserError("no tab after a language", where=f"{self._file}:{number}", hint=hint)
            if name == self.name:
                yield text


# Text in several languages that is not parallel: each language has its own segments.


@dataclass(frozen=True)
class TextsSource(SeveralSources):
    """Texts in several languages that are not parallel: read, cleaned and counted separately.

    `parts` has the source of each field; `read` concatenates them.
    """

    parts: Mapping[str, ResolvedSource]

    @property
    def parallel(self) -> bool:
        return False

    def identity(self) -> dict[str, object]:
        return {"texts": {name: part.identity() for name, part in self.parts.items()}}

    @property
    def _sources(self) -> Collection[ResolvedSource]:
        return self.parts.values()
