"""Text beside a task's pairs: streamed through the cleaning rules, and freed of what the pairs have already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from subgraft.config.settings_base import TextSide
from subgraft.config.corpora import Cleaning
from subgraft.base.errors import UserError
from subgraft.data.sources.side_text import SideText
from subgraft.data.text.cleaning import chunks, clean, digests
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import text_places
from subgraft.data.text.held_out import HeldOut
from subgraft.data.text.deduplication import Seen

# Called with the segments read so far, those there are, and what they are.
Progress = Callable[[int, int, str], None]

_REPORT_EVERY = 10_000
SPLIT = "train"


def build_beside(
    sides: Mapping[TextSide, Sequence[SideText]],
    pairs: Corpus,
    identity: Mapping[str, object],
    cleaning: Cleaning,
    out: Path,
    progress: Progress | None = None,
) -> tuple[Corpus, dict[TextSide, Counter[str]]]:
    """Text of each side in a corpus whose fields are not parallel, and what was counted of each.

    Segments that the pairs' dev or test split has on either side count as "held_out", those that their train split has
    on that side as "elsewhere"; "characters" are those of what is kept. out: an existing empty folder.
    Raises UserError as reading does, and where nothing is left of a side.
    """
    counts: dict[TextSide, Counter[str]] = {side: Counter() for side in sides}
    for side, texts in sides.items():
        segments = _reported(texts, side, progress)
        held_out = _held_out(pairs)
        known = _training(pairs, side, out) if cleaning.deduplicate else None
        cleaned = clean(((line,) for line in segments), cleaning, held_out, counts[side], (0,), known, out)
        with (out / f"{SPLIT}.{side}").open("w", encoding="utf-8", newline="\n") as file:
            for (line,) in cleaned:
                counts[side]["characters"] += len(line)
                file.write(f"{line}\n")
        if not counts[side]["kept"]:
            told = ", ".join(f"{rule}: {count:,}" for rule, count in counts[side].items() if count)
            raise UserError(f"cleaning leaves nothing of the text ({told})", where=f"downstream.text.{side}")
    together = sum(counts.values(), Counter[str]())
    del together["characters"]
    corpus = Corpus(
        directory=out,
        fields=tuple(pairs.field(side) for side in sides),
        generated=any(text.source.generated for texts in sides.values() for text in texts),
        sizes={SPLIT: together["kept"]},
        counts={SPLIT: dict(sorted(together.items()))},
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


def _training(pairs: Corpus, side: TextSide, folder: Path) -> Seen:
    return Seen.of(map(digests, chunks((line,) for line in pairs.lines(SPLIT, side))), folder)


def _reported(texts: Sequence[SideText], side: TextSide, progress: Progress | None) -> Iterator[str]:
    size, done = sum(text.size() for text in texts), 0
    for text in texts:
        for line in text.read():
            done += 1
            yield line
            if progress and (done % _REPORT_EVERY == 0 or done == size):
                progress(done, size, f"segments of {side} text")
