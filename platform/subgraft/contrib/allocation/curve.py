"""A language's ALP as a function of its vocabulary size, up to the largest size that its text supports."""

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
from subgraft.base.progress import ProgressCallback
from subgraft.contrib.allocation.piece_training import (
    UNKNOWN_PIECE,
    WordTypes,
    bpe_pieces,
    normalise,
    seeded_unigram_pieces,
    unigram_pieces,
)
from subgraft.subwords.vocabulary.capacity import average_log_probability, log_shares
from subgraft.subwords.vocabulary.sentencepiece_model import ordinary_pieces

RECORD = "curve.json"
PIECES = "pieces.jsonl"
CurveKind = Literal["unigram", "bpe"]
# How the vocabularies of a curve are computed: by replaying merges, by one descent, or by training each separately.
CurveWay = Literal["replay", "descent", "retrained"]


@dataclass(frozen=True)
class Curve:
    """ALP by vocabulary size.

    Attributes:
        kind: The algorithm.
        way: How the vocabularies were computed.
        sentences, words: Size of the training text.
        characters: Number of single characters, which every vocabulary has.
        limit: The largest vocabulary that the text supports; None if it may be larger than requested.
        sizes: Numbers of ordinary pieces, ascending; special tokens are not counted.
        alp, tokens: ALP and tokens of the training text at each size.
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
    """A curve and the vocabulary of each size: its pieces and their log probabilities.

    Unigram probabilities are SentencePiece's estimates. BPE probabilities are shares of the text's tokens, where an
    intermediate piece that does not occur counts as half a token.
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
        """Read a curve from a directory. Raises UserError if there is none."""
        try:
            record = json_io.parse_object((directory / RECORD).read_bytes())
            lists = {name: tuple(record[name]) for name in ("sizes", "alp", "tokens")}
            lines = map(json_io.parse_object, (directory / PIECES).read_bytes().splitlines())
            return cls(Curve(**{**record, **lists}), {line["size"]: line["pieces"] for line in lines})
        except (OSError, ValueError, KeyError, TypeError):
            raise UserError(f"not a curve: it contains no readable {RECORD}", where=str(directory)) from None


def measure(
    open_lines: Callable[[], Iterator[str]],
    kind: CurveKind,
    sizes: Sequence[int],
    *,
    exact: bool = False,
    progress: ProgressCallback | None = None,
) -> MeasuredCurve:
    """The curve of a text at the supported sizes, and at the text's limit if that is below the last size.

    Args:
        open_lines: Opens the text from its beginning.
        kind: The algorithm.
        sizes: Numbers of ordinary pieces, ascending; sizes without room for the text's characters are skipped.
        exact: Train unigram separately at each size; a BPE curve is always exact.
        progress: Called with finished sizes, all sizes, and their name.

    Raises:
        UserError: The text is empty, or has more characters than the largest size.
    """
    if any(larger <= smaller for smaller, larger in pairwise(sizes)):
        raise UserError(f"sizes must increase, not {', '.join(map(str, sizes))}", where="sizes")
    types = WordTypes.of(open_lines())
    if kind == "bpe":
        return _measure_bpe(types, sizes)
    largest = unigram_pieces(normalise(open_lines()), sizes[-1])
    smaller, characters, limit = _supported_sizes(ordinary_pieces(largest), sizes)
    smaller_models = retrained(open_lines, smaller) if exact else descent(types, largest, smaller)
    vocabularies, counts = dict[int, dict[str, float]](), dict[int, NDArray[np.int64]]()
    for done, (_, model) in enumerate([(0, largest), *smaller_models]):
        pieces = ordinary_pieces(model)
        vocabularies[len(pieces)], counts[len(pieces)] = pieces, types.counts(model)
        if progress:
            progress(done + 1, 1 + len(smaller), "sizes")
    curve = _curve("unigram", "retrained" if exact else "descent", types, characters, limit, counts)
    return MeasuredCurve(curve, vocabularies)


def _measure_bpe(types: WordTypes, sizes: Sequence[int]) -> MeasuredCurve:
    largest = bpe_pieces(types.words, sizes[-1])
    pieces = ordinary_pieces(largest)
    smaller, characters, limit = _supported_sizes(pieces, sizes)
    merges, single = merges_of(pieces)
    largest_size = characters + len(merges)
    token_counts = dict(zip((UNKNOWN_PIECE, *pieces), types.counts(largest).tolist(), strict=True))
    replayed = replay(merges, token_counts, [size - characters for size in (*smaller, largest_size)])
    counts = {size + characters: np.array(list(each.values()), dtype=np.int64) for size, each in replayed.items()}
    vocabularies = {
        size + characters: log_shares(named, np.array([each.get(piece, 0) for piece in named]))
        for size, each in replayed.items()
        for named in [[*merges[:size], *single]]
    }
    return MeasuredCurve(_curve("bpe", "replay", types, characters, limit, counts), vocabularies)


def _supported_sizes(pieces: Collection[str], sizes: Sequence[int]) -> tuple[list[int], int, int | None]:
    """The sizes below the largest model's, the number of characters, and the limit if it was reached."""
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


# Unigram vocabularies of many sizes from one descent: the EM of each is initialised with the pieces of the next larger
# one. Retraining at each size, which starts from all frequent substrings, changes ALP by some tenths of a percent.
# Pruning one large model without any EM is off by several percent and is not offered.


def descent(types: WordTypes, largest: bytes, sizes: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """A model for each size, in descending order.

    Args:
        types: The text.
        largest: The model to start from, larger than all sizes.
        sizes: Numbers of pieces, ascending.
    """
    larger = largest
    for size in reversed(sizes):
        larger = seeded_unigram_pieces(types.words, size, larger)
        yield size, larger


def retrained(open_lines: Callable[[], Iterator[str]], sizes: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """A model for each size by separate training, in descending order: the exact curve."""
    for size in reversed(sizes):
        yield size, unigram_pieces(normalise(open_lines()), size)


# The piece counts of a text at every size of a BPE vocabulary, from one training.
#
# BPE applies merges in rank order, so a segmentation by k + 1 merges is that by k merges with the last merge applied.
# Therefore the counts at the largest size determine all others: merges are undone in reverse order, and each undone
# piece is replaced by its own segmentation by the remaining merges.


def merges_of(pieces: Mapping[str, float]) -> tuple[list[str], list[str]]:
    """Pieces of several characters in merge order, and single characters, of a model's ordinary pieces."""
    ranked = sorted((piece for piece in pieces if len(piece) > 1), key=lambda piece: -pieces[piece])
    return ranked, [piece for piece in pieces if len(piece) == 1]


def replay(merges: Sequence[str], counts: Mapping[str, int], merge_counts: Sequence[int]) -> dict[int, dict[str, int]]:
    """Counts of the text's pieces for several numbers of merges.

    Args:
        merges: All pieces that merges produce, in rank order.
        counts: Counts of the text's tokens under all merges; tokens that no merge produces do not change.
        merge_counts: The numbers of merges at which to return counts, in any order.
    """
    ranks = {piece: rank for rank, piece in enumerate(merges)}
    remaining = {piece: int(count) for piece, count in counts.items() if count}
    recorded, counts_at = set(merge_counts), dict[int, dict[str, int]]()
    for size in range(len(merges), -1, -1):
        if size in recorded:
            counts_at[size] = dict(remaining)
        if size and (count := remaining.pop(merges[size - 1], 0)):
            for part in _parts(merges[size - 1], ranks, size - 1):
                remaining[part] = remaining.get(part, 0) + count
    return counts_at


def _parts(piece: str, ranks: Mapping[str, int], rank: int) -> Sequence[str]:
    """The segmentation of a piece without its own merge, which has this rank.

    The merge joined two parts. Usually there is only one position where they can meet, so segmenting from characters
    is not necessary.
    """
    last = len(piece) - 1
    splits = [
        split
        for split in range(1, last + 1)
        if (split == 1 or ranks.get(piece[:split], rank) < rank)
        and (split == last or ranks.get(piece[split:], rank) < rank)
    ]
    return (piece[: splits[0]], piece[splits[0] :]) if len(splits) == 1 else segment(piece, ranks, rank)


def segment(text: str, ranks: Mapping[str, int], max_rank: int) -> list[str]:
    """The segmentation of a text by merges of a rank below `max_rank`: the lowest rank first, ties leftmost first."""
    parts = list(text)
    merge_ranks = [ranks.get(left + right, max_rank) for left, right in pairwise(parts)]
    while merge_ranks and (best_rank := min(merge_ranks)) < max_rank:
        i = merge_ranks.index(best_rank)
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
        del merge_ranks[i]
        if i > 0:
            merge_ranks[i - 1] = ranks.get(parts[i - 1] + parts[i], max_rank)
        if i < len(merge_ranks):
            merge_ranks[i] = ranks.get(parts[i] + parts[i + 1], max_rank)
    return parts
