"""Monolingual text of one side of a task, from a corpus, a file or a folder of files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.progress import ProgressCallback
from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.settings_base import TextSide
from subgraft.data.sources.corpus_builder import report_progress
from subgraft.data.sources.kind import Pairing
from subgraft.data.sources.paths import find
from subgraft.data.sources.registry import CorpusSource, resolve
from subgraft.data.sources.resolved_corpus import ResolvedSource
from subgraft.data.text.cleaning import chunks, clean, digests
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.deduplication import SegmentDigests
from subgraft.data.text.fields import text_places
from subgraft.data.text.held_out import HeldOut

SPLIT = "train"
# The files of a folder that are read.
_ENDINGS = (".txt", ".gz")
# Their lines are not plain text: settings of corpora describe the content.
_STRUCTURED = (".json", ".jsonl", ".tsv", ".csv")


@dataclass(frozen=True)
class SideText:
    """The training text of one side of a source; `index` is the position of its cell in a segment."""

    source: ResolvedSource
    index: int

    def size(self) -> int:
        """The number of segments. Raises UserError like `ResolvedSource.size`."""
        return self.source.size("train")

    def read(self) -> Iterator[str]:
        return (cells[self.index] for cells in self.source.read("train"))


def named_sources(name: str, corpora: Mapping[str, CorpusSource], base: Path, where: str) -> tuple[CorpusSource, ...]:
    """The sources of a name: a corpus of that name, else a file, else the files of a folder in order of their names.

    Raises:
        UserError: The name, in the setting `where`, is none of these (the message has the closest ones), or a folder
            has no text files.
    """
    if name in corpora:
        return (corpora[name],)
    try:
        path = find(name, base)
    except UserError:
        raise _unknown(name, corpora, base, where) from None
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and file.suffix in _ENDINGS)
        if not files:
            hint = "Define a folder of {train,dev,test}.{language} in `corpora`, and give its name."
            raise UserError("a folder without .txt or .gz files", where=f"{where}: {path}", hint=hint)
    else:
        if path.suffix in _STRUCTURED:
            hint = "Define it in `corpora`, as records or columns, and give its name."
            raise UserError("a file of one segment a line was expected", where=f"{where}: {path}", hint=hint)
        files = [path]
    return tuple(CorpusSource(files={"train": (str(file),)}) for file in files)


def side_texts(
    sources: Mapping[TextSide, Sequence[CorpusSource]],
    languages: Languages,
    base: Path,
    *,
    pairing: Pairing | None = None,
) -> dict[TextSide, list[SideText]]:
    """The texts of each side's sources, by `side_text`."""
    return {
        side: [side_text(source, side, languages, base, pairing=pairing) for source in sources_of_side]
        for side, sources_of_side in sources.items()
    }


def side_text(
    source: CorpusSource, side: TextSide, languages: Languages, base: Path, *, pairing: Pairing | None = None
) -> SideText:
    """The training text of a source in the language of a side; `languages` are those of the task.

    Raises UserError like `resolve`, and for a source without a training split.
    """
    language = languages.target if side == "target" else languages.source
    requested = Languages(source=language, target=language) if source.one_text else languages
    resolved = resolve(source, requested, base, pairing=pairing)
    if source.multipliers:
        raise UserError(
            "multipliers are of a task's or an upstream corpus, and not of additional text", where="together"
        )
    if "train" not in resolved.splits:
        hint = f"It has: {', '.join(resolved.splits)}."
        raise UserError("a corpus without a train split has no text to learn from", where=source.kind.name, hint=hint)
    return SideText(resolved, text_places(resolved.fields)[-1 if side == "target" else 0])


def _unknown(name: str, corpora: Mapping[str, CorpusSource], base: Path, where: str) -> UserError:
    folder = (base / name).parent
    siblings = [str(Path(name).with_name(path.name)) for path in folder.iterdir()] if folder.is_dir() else []
    close_matches = get_close_matches(name, [*corpora, *sorted(siblings)], cutoff=0.5)
    hint = f"Nearest: {', '.join(close_matches)}." if close_matches else f"There are the corpora {', '.join(corpora)}."
    return UserError(f"'{name}' is neither one of corpora nor a file or folder", where=where, hint=hint)


# Text in addition to a task's pairs: streamed through the cleaning rules, without lines of the pairs.


def build_monolingual_corpus(
    sides: Mapping[TextSide, Sequence[SideText]],
    pairs: Corpus,
    identity: Mapping[str, object],
    cleaning: Cleaning,
    out: Path,
    progress: ProgressCallback | None = None,
) -> tuple[Corpus, dict[TextSide, Counter[str]]]:
    """Build a corpus of each side's text, not parallel; returns it with counts per side.

    Segments on either side of the pairs' dev or test split are counted as "held_out", those on the same side of their
    train split as "elsewhere"; "characters" counts those of retained segments. `out` is an existing empty folder.
    Raises UserError like reading, and if no segment of a side is left.
    """
    counts: dict[TextSide, Counter[str]] = {side: Counter() for side in sides}
    for side, texts in sides.items():
        lines = chain.from_iterable(text.read() for text in texts)
        segments = report_progress(lines, sum(text.size() for text in texts), f"segments of {side} text", progress)
        held_out = _held_out(pairs)
        pair_digests = None
        if cleaning.deduplicate:
            pair_digests = SegmentDigests.of(map(digests, chunks((line,) for line in pairs.lines(SPLIT, side))), out)
        cleaned = clean(((line,) for line in segments), cleaning, held_out, counts[side], (0,), pair_digests, out)
        with (out / f"{SPLIT}.{side}").open("w", encoding="utf-8", newline="\n") as file:
            for (line,) in cleaned:
                counts[side]["characters"] += len(line)
                file.write(f"{line}\n")
        if not counts[side]["kept"]:
            report = ", ".join(f"{rule}: {count:,}" for rule, count in counts[side].items() if count)
            raise UserError(f"cleaning leaves nothing of the text ({report})", where=f"downstream.text.{side}")
    totals = sum(counts.values(), Counter[str]())
    del totals["characters"]
    corpus = Corpus(
        directory=out,
        fields=tuple(pairs.field(side) for side in sides),
        generated=any(text.source.generated for texts in sides.values() for text in texts),
        sizes={SPLIT: totals["kept"]},
        counts={SPLIT: dict(sorted(totals.items()))},
        identity=identity,
        aligned=False,
        field_sizes={SPLIT: {side: counted["kept"] for side, counted in counts.items()}},
    )
    corpus.save()
    return corpus, counts


def _held_out(pairs: Corpus) -> HeldOut:
    names = [pairs.fields[at].name for at in text_places(pairs.fields)]
    splits = [split for split in pairs.splits if split != SPLIT]
    return HeldOut(
        sides for split in splits for sides in zip(*(pairs.lines(split, name) for name in names), strict=True)
    )
