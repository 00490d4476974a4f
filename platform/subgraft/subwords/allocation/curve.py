"""A language's ALP at every size of its vocabulary, up to the largest that its text can give."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.subwords.allocation.capacity import average_log_probability, log_shares
from subgraft.subwords.allocation.piece_training import UNKNOWN_PIECE, bpe_pieces, seeded_unigram_pieces, unigram_pieces
from subgraft.subwords.allocation.word_types import WordTypes, normalised
from subgraft.subwords.vocabulary.sentencepiece_model import ordinary_pieces

RECORD = "curve.json"
PIECES = "pieces.jsonl"
CurveKind = Literal["unigram", "bpe"]
# How the vocabularies of a curve are found: merges replayed, one descent, or a training for each.
CurveWay = Literal["replay", "descent", "retrained"]
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Curve:
    """sizes: rising, of ordinary pieces; special tokens come on top.  alp, tokens: of the training text, at each.

    characters: the pieces that every size has.  limit: the largest vocabulary that the text can give; None where it may
    be larger than was asked for.
    """

    kind: CurveKind
    way: CurveWay
    sentences: int
    words: int
    characters: int
    limit: int | None
    sizes: tuple[int, ...]
    alp: tuple[float, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class MeasuredCurve:
    """A curve with the vocabularies behind it: of each size, the pieces and their log probabilities.

    Those of unigram are as SentencePiece estimates them, those of BPE the shares of the text's tokens; a piece that
    only others are made of counts as half a token.
    """

    curve: Curve
    vocabularies: Mapping[int, Mapping[str, float]]

    def save(self, directory: Path) -> None:
        text = json.dumps(asdict(self.curve), indent=2)
        (directory / RECORD).write_text(text + "\n", encoding="utf-8")
        with (directory / PIECES).open("w", encoding="utf-8") as file:
            for size, pieces in sorted(self.vocabularies.items()):
                file.write(json.dumps({"size": size, "pieces": pieces}, ensure_ascii=False) + "\n")

    @classmethod
    def open(cls, directory: Path) -> MeasuredCurve:
        """Raises UserError where there is no curve."""
        try:
            record = json_io.parse_object((directory / RECORD).read_bytes())
            lists = {name: tuple(record[name]) for name in ("sizes", "alp", "tokens")}
            each = map(json_io.parse_object, (directory / PIECES).read_bytes().splitlines())
            return cls(Curve(**{**record, **lists}), {one["size"]: one["pieces"] for one in each})
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"not a curve: it holds no readable {RECORD}", where=str(directory)) from None


def measure(
    open_lines: Callable[[], Iterator[str]],
    kind: CurveKind,
    sizes: Sequence[int],
    *,
    exact: bool = False,
    progress: Progress | None = None,
) -> MeasuredCurve:
    """The curve of a text at these sizes, as far as it supports them, and at its limit where that is below the last.

    open_lines: reads the text from its beginning.  sizes: rising, of ordinary pieces; those that have no room for the
    text's characters are left out.  exact: trains unigram anew at each size; a curve of BPE is always exact.
    Raises UserError where there is no text, or where it has more characters than the largest size.
    """
    if any(larger <= smaller for smaller, larger in pairwise(sizes)):
        raise UserError(f"sizes must rise, not {', '.join(map(str, sizes))}", where="sizes")
    types = WordTypes.of(open_lines())
    if kind == "bpe":
        return _bpe(types, sizes)
    largest = unigram_pieces(normalised(open_lines()), sizes[-1])
    smaller, characters, limit = _grid(ordinary_pieces(largest), sizes)
    rest = retrained(open_lines, smaller) if exact else descent(types, largest, smaller)
    vocabularies, counts = dict[int, dict[str, float]](), dict[int, NDArray[np.int64]]()
    for done, (_, model) in enumerate([(0, largest), *rest]):
        pieces = ordinary_pieces(model)
        vocabularies[len(pieces)], counts[len(pieces)] = pieces, types.counts(model)
        if progress:
            progress(done + 1, 1 + len(smaller), "sizes")
    curve = _curve("unigram", "retrained" if exact else "descent", types, characters, limit, counts)
    return MeasuredCurve(curve, vocabularies)


def _bpe(types: WordTypes, sizes: Sequence[int]) -> MeasuredCurve:
    largest = bpe_pieces(types.words, sizes[-1])
    pieces = ordinary_pieces(largest)
    smaller, characters, limit = _grid(pieces, sizes)
    merges, single = merges_of(pieces)
    whole = characters + len(merges)
    used = dict(zip((UNKNOWN_PIECE, *pieces), types.counts(largest).tolist(), strict=True))
    found = replay(merges, used, [size - characters for size in (*smaller, whole)])
    counts = {kept + characters: np.array(list(each.values()), dtype=np.int64) for kept, each in found.items()}
    vocabularies = {
        kept + characters: log_shares(named, np.array([each.get(piece, 0) for piece in named]))
        for kept, each in found.items()
        for named in [[*merges[:kept], *single]]
    }
    return MeasuredCurve(_curve("bpe", "replay", types, characters, limit, counts), vocabularies)


def _grid(pieces: Collection[str], sizes: Sequence[int]) -> tuple[list[int], int, int | None]:
    """The sizes below that of the largest model, the number of characters, and the limit, where it was reached."""
    characters = sum(len(piece) == 1 for piece in pieces)
    smaller = [size for size in sizes if characters < size < len(pieces)]
    return smaller, characters, len(pieces) if len(pieces) < sizes[-1] else None


def _curve(
    kind: CurveKind,
    way: CurveWay,
    types: WordTypes,
    characters: int,
    limit: int | None,
    counts: Mapping[int, NDArray[np.int64]],
) -> Curve:
    sizes = sorted(counts)
    return Curve(
        kind=kind,
        way=way,
        sentences=types.sentences,
        words=types.tokens,
        characters=characters,
        limit=limit,
        sizes=tuple(sizes),
        alp=tuple(average_log_probability(counts[size], types.sentences) for size in sizes),
        tokens=tuple(int(counts[size].sum()) for size in sizes),
    )


# Unigram vocabularies of many sizes from one descent: each begins its EM with the pieces of the next larger one.
#
# A variant: retraining at a size begins with all frequent substrings instead. Their ALP differs by some tenths of a
# percent; cutting one large model down, without any EM, is off by several percent, and is not offered.


def descent(types: WordTypes, largest: bytes, sizes: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """A model for each size, from the largest down.

    largest: the model of the largest size, which need not be among them.  sizes: rising, all below the largest's.
    """
    above = largest
    for size in reversed(sizes):
        above = seeded_unigram_pieces(types.words, size, above)
        yield size, above


def retrained(open_lines: Callable[[], Iterator[str]], sizes: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """A model for each size by a training of its own, from the largest down: the exact way."""
    for size in reversed(sizes):
        yield size, unigram_pieces(normalised(open_lines()), size)


# The piece counts of a text at every size of a BPE vocabulary, from one training.
#
# Encoding by a vocabulary that has one merge more goes on from where encoding without it ends: whoever always makes the
# best-ranked merge there is makes the last one when no other is left. So the counts at the largest size hold all
# others: taken back in reverse, each piece is replaced by what its own characters are cut into without it.


def merges_of(pieces: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Pieces that join others, in the order in which they were learnt, and single characters.

    pieces: the ordinary ones of a model, with their scores.
    """
    ranked = sorted((piece for piece in pieces if len(piece) > 1), key=lambda piece: -pieces[piece])
    return ranked, [piece for piece in pieces if len(piece) == 1]


def replay(merges: Sequence[str], counts: Mapping[str, int], keep: Sequence[int]) -> dict[int, dict[str, int]]:
    """How often the text has each piece that it uses, by how many of the first merges are kept.

    counts: of the text's tokens under all of the merges; what no merge made is left as it is.  keep: numbers of merges,
    in any order.
    """
    ranks = {piece: rank for rank, piece in enumerate(merges)}
    left = {piece: int(count) for piece, count in counts.items() if count}
    wanted, found = set(keep), dict[int, dict[str, int]]()
    for kept in range(len(merges), -1, -1):
        if kept in wanted:
            found[kept] = dict(left)
        if kept and (count := left.pop(merges[kept - 1], 0)):
            for part in _parts(merges[kept - 1], ranks, kept - 1):
                left[part] = left.get(part, 0) + count
    return found


def _parts(piece: str, ranks: Mapping[str, int], rank: int) -> Sequence[str]:
    """What a piece is cut into without its own merge, which is of this rank.

    A text that has the piece has it by that merge, which joined two parts. Mostly there is one place where two can
    meet, and so no need to begin from characters.
    """
    last = len(piece) - 1
    places = [
        place
        for place in range(1, last + 1)
        if (place == 1 or ranks.get(piece[:place], rank) < rank)
        and (place == last or ranks.get(piece[place:], rank) < rank)
    ]
    return (piece[: places[0]], piece[places[0] :]) if len(places) == 1 else cut(piece, ranks, rank)


def cut(text: str, ranks: Mapping[str, int], most: int) -> list[str]:
    """What the merges of a rank below `most` make of a text: always the best-ranked one, the leftmost of equals."""
    parts = list(text)
    joined = [ranks.get(left + right, most) for left, right in pairwise(parts)]
    while joined and (best := min(joined)) < most:
        at = joined.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
        del joined[at]
        if at > 0:
            joined[at - 1] = ranks.get(parts[at - 1] + parts[at], most)
        if at < len(joined):
            joined[at] = ranks.get(parts[at] + parts[at + 1], most)
    return parts
