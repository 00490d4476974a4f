"""A corpus as stages keep it: a folder of plain UTF-8 files, one segment per line, with what was done to them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from subgraft.config.base import Split
from subgraft.config.corpora import Cleaning, CorpusSource, Languages
from subgraft.errors import UserError
from subgraft.text import reading, sources
from subgraft.text.cleaning import Sides, clean, digest, strip
from subgraft.text.resolved import ResolvedSource
from subgraft.text.squad import Pairing

Side = Literal["source", "target"]
# Called with the segments read so far, those there are, and the split.
Progress = Callable[[int, int, str], None]

RECORD = "corpus.json"
_FORMAT = 1
_REPORT_EVERY = 10_000


@dataclass(frozen=True)
class Corpus:
    """A folder with {train,dev,test}.{source,target} and corpus.json; a monolingual one has no target files.

    languages: of the source and the target side.  generated: it is the built-in corpus.  sizes: segments per split.
    counts: per split, the segments "read", "kept" and dropped by each cleaning rule, and what the source remarks.
    identity: of what it was built.
    """

    directory: Path
    languages: tuple[str, str]
    generated: bool
    monolingual: bool
    sizes: Mapping[str, int]
    counts: Mapping[str, Mapping[str, int]]
    identity: Mapping[str, object]

    @classmethod
    def open(cls, directory: Path) -> Corpus:
        """Raises UserError where `directory` holds no corpus that this version can read."""
        try:
            record = json.loads((directory / RECORD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise UserError(f"not a corpus: it holds no readable {RECORD}", where=str(directory)) from None
        if not isinstance(record, dict) or record.pop("format", None) != _FORMAT:
            raise UserError("a corpus of another version", where=str(directory / RECORD), hint="Build it again.")
        source, target = record.pop("languages")
        return cls(directory=directory, languages=(source, target), **record)

    @property
    def splits(self) -> tuple[str, ...]:
        return tuple(self.sizes)

    def size(self, split: str) -> int:
        """How many segments a split holds. Raises UserError where there is no such split."""
        if split not in self.sizes:
            what = f"has no {split} split (there is: {', '.join(self.sizes)})"
            raise UserError(what, where=str(self.directory))
        return self.sizes[split]

    def lines(self, split: str, side: Side) -> Iterator[str]:
        """The segments of one side, streaming."""
        self.size(split)
        if side == "target" and self.monolingual:
            raise UserError("a monolingual corpus has no target side", where=str(self.directory))
        return reading.lines(self.directory / f"{split}.{side}")

    def pairs(self, split: str) -> Iterator[tuple[str, str]]:
        """(source, target) pairs, streaming."""
        return zip(self.lines(split, "source"), self.lines(split, "target"), strict=True)

    def _save(self) -> None:
        record = asdict(self)
        del record["directory"]
        text = json.dumps({"format": _FORMAT, **record}, ensure_ascii=False, indent=2)
        (self.directory / RECORD).write_text(text + "\n", encoding="utf-8")


def build(
    source: CorpusSource,
    languages: Languages,
    cleaning: Cleaning,
    out: Path,
    *,
    base: Path = Path(),
    pairing: Pairing | None = None,
    progress: Progress | None = None,
) -> Corpus:
    """Stream a source through the cleaning rules into `out`, a folder that is absent or empty.

    base: where relative paths begin.  pairing: what the task makes of a question, where they are questions.
    Held-out splits are stripped and kept whole; training pairs that occur in them are dropped where the rules say so.
    Raises UserError as resolving and reading do, all before anything is written, and where cleaning leaves nothing.
    """
    resolved = sources.resolve(source, languages, base, pairing=pairing)
    sizes = {split: resolved.size(split) for split in resolved.splits}
    require_empty(out)
    counts = _write_splits(resolved, sizes, cleaning, out, progress)
    _require_something(counts.get("train"), out)
    corpus = Corpus(
        directory=out,
        languages=(languages.source, languages.target),
        generated=resolved.generated,
        monolingual=resolved.monolingual,
        sizes={split: counts[split]["kept"] for split in resolved.splits},
        counts={split: dict(sorted(counts[split].items())) for split in resolved.splits},
        identity=resolved.identity(),
    )
    corpus._save()
    return corpus


def require_empty(out: Path) -> None:
    """Raises UserError unless `out` is absent or an empty folder."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError("exists and is not an empty folder", where=str(out))


def _require_something(counts: Counter[str] | None, out: Path) -> None:
    if counts is None or counts["kept"]:
        return
    for path in out.iterdir():
        path.unlink()
    told = ", ".join(f"{rule}: {count:,}" for rule, count in counts.items() if count)
    raise UserError(f"cleaning leaves no training segment ({told})", where="cleaning")


def _write_splits(
    resolved: ResolvedSource,
    sizes: Mapping[Split, int],
    cleaning: Cleaning,
    out: Path,
    progress: Progress | None,
) -> dict[Split, Counter[str]]:
    out.mkdir(parents=True, exist_ok=True)
    counts: dict[Split, Counter[str]] = {split: Counter() for split in resolved.splits}
    held_out: set[int] = set()
    # The training split comes last: what it may not hold is known by then.
    for split in reversed(resolved.splits):
        segments = _reported(resolved.read(split), sizes[split], split, progress)
        if split == "train":
            segments = clean(segments, cleaning, frozenset(held_out), counts[split])
        else:
            segments = _collected(segments, held_out, counts[split])
        _write(segments, out, split, resolved.monolingual)
        counts[split].update(resolved.remarks(split))
    return counts


def _collected(segments: Iterable[Sides], held_out: set[int], counts: Counter[str]) -> Iterator[Sides]:
    for sides in segments:
        sides = strip(sides, counts)
        counts["read"] += 1
        counts["kept"] += 1
        held_out.add(digest(sides))
        yield sides


def _reported(segments: Iterable[Sides], size: int, split: Split, progress: Progress | None) -> Iterator[Sides]:
    done = 0
    for done, sides in enumerate(segments, 1):
        yield sides
        if progress and done % _REPORT_EVERY == 0:
            progress(done, size, split)
    if progress:
        progress(done, size, split)


def _write(segments: Iterable[Sides], out: Path, split: Split, monolingual: bool) -> None:
    names: tuple[Side, ...] = ("source",) if monolingual else ("source", "target")
    with ExitStack() as stack:
        handles = [
            stack.enter_context((out / f"{split}.{name}").open("w", encoding="utf-8", newline="\n")) for name in names
        ]
        for sides in segments:
            for handle, side in zip(handles, sides, strict=True):
                handle.write(f"{side}\n")
