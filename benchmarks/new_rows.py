"""Rows of 13,000 new tokens from 250,000 upstream ones of 1,024: CPU seconds of each part, from directories on.

    SUBGRAFT_DATA=… python benchmarks/new_rows.py [--entries V] [--new N] [--width D] [--cache FOLDER] [--profile]
    --quick: a fifth of the entries, of the new tokens and of the text.

Both vocabularies are the commonest words of real text and what words begin and end with, as unigram models with a
SentencePiece model: nothing is trained for them. The upstream table is random. All on one thread.
"""

from __future__ import annotations

import cProfile
import math
import os
import pstats
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TypeVar

import torch

from measurements import Measurements, measurements, options, real_text
from subgraft.contrib.allocation.union import union
from subgraft.data.text import reading
from subgraft.embeddings.generators.generator import Generator, RaggedSimilar
from subgraft.embeddings.initialisers.new_rows import weighted_sums
from subgraft.subwords.similar_tokens.finder import SimilarTokenFinder
from subgraft.subwords.similar_tokens.token_subwords import subwords
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.entry import SPACE_MARK
from subgraft.subwords.vocabulary.specials import special_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

T = TypeVar("T")
UPSTREAM, DOWNSTREAM = ("mono/*/*.gz",), ("en-fr/laws/train.*.gz", "en-fr/itdocs/train.*.gz")
LINES = 20_000  # of each file
SUBWORD = 6  # characters of a word's beginning or end that is a piece


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--entries", type=int, default=250_000)
    parser.add_argument("--new", type=int, default=13_000)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--cache", help="folder to keep the vocabularies in (default: a temporary one)")
    parser.add_argument("--profile", action="store_true", help="of reading the upstream vocabulary")
    args = parser.parse_args()
    part = 5 if args.quick else 1
    entries, new = args.entries // part, args.new // part
    os.environ["RAYON_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary, measurements(__doc__, args) as table:
        upstream, downstream = (Path(args.cache or temporary, name) for name in ("upstream", "downstream"))
        if not upstream.is_dir():
            data = real_text()
            _vocabulary(data, UPSTREAM, entries, LINES // part).save(upstream)
            _vocabulary(data, DOWNSTREAM, 3 * new, LINES // part).save(downstream)
        if args.profile:
            _profile(upstream)
        _measure(table, upstream, downstream, new, args.width)


def _vocabulary(data: Path, patterns: tuple[str, ...], size: int, lines: int) -> Tokenizer:
    words = Counter(word for line in _lines(data, patterns, lines) for word in line.split())
    counts: Counter[str] = Counter()
    for word, count in words.items():
        pieces = {word[-length:] for length in range(1, min(len(word), SUBWORD))}
        pieces |= {SPACE_MARK + word[:length] for length in range(1, min(len(word), SUBWORD))} | {*word}
        for piece in pieces | {SPACE_MARK + word}:
            counts[piece] += count
    whole = counts.total()
    scores = {piece: math.log(count / whole) for piece, count in counts.most_common(size)}
    steps = {piece: round(score * 2048) / 2048 for piece, score in scores.items()}
    return union({"": steps}, special_tokens(wordpiece=False, mask=True, languages=(), like=None))


def _lines(data: Path, patterns: tuple[str, ...], each: int) -> Iterator[str]:
    for pattern in patterns:
        for path in sorted(data.glob(pattern)):
            yield from islice(reading.lines(path), each)


def _measure(shown: Measurements, upstream: Path, downstream: Path, new: int, width: int) -> None:
    parts: list[tuple[str, float]] = []

    def measure(name: str, work: Callable[[], T]) -> T:
        began = time.process_time()
        result = work()
        parts.append((name, time.process_time() - began))
        shown.add(name, CPU_seconds=parts[-1][1])
        return result

    source = measure("upstream vocabulary read", lambda: Tokenizer.load(upstream))
    target = measure("downstream vocabulary read", lambda: Tokenizer.load(downstream))
    measure("their entries", lambda: (source.ids, target.entries, source.ordinary_ids))
    alignment = measure("which tokens are new", lambda: align(source, target))
    entries = [entry for token in alignment.unseen[:new] if (entry := target.entries[token]) is not None]
    table = torch.randn(len(source), width)
    ordinary = torch.from_numpy(source.ordinary_ids)
    print(f"{len(entries):,} new tokens of {len(target):,} against {len(source):,}")

    def mean() -> torch.Tensor:
        cut = subwords(source, entries)
        counts = torch.tensor([len(each.ids) for each in cut])
        tokens = torch.tensor([i for each in cut for i in each.ids])
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
        weights = (1.0 / counts).repeat_interleave(counts)
        return weighted_sums(table, offsets, tokens, weights, ordinary)

    with torch.no_grad():
        measure("mean of subwords", mean)
        finder = measure("index of the upstream vocabulary", lambda: SimilarTokenFinder(source))
        similar = measure("similar sets", lambda: finder.find(entries))
        ragged = RaggedSimilar.from_numpy(similar, source.ordinary_ids)
        patt = Generator("patt", width)
        measure("PATT", lambda: patt(table, ragged))
    seconds = dict(parts)
    read, made = sum(list(seconds.values())[:4]), sum(list(seconds.values())[5:])
    shown.add("mean, from directories", CPU_seconds=read + seconds["mean of subwords"])
    shown.add("PATT, from directories", CPU_seconds=read + made)


def _profile(place: Path) -> None:
    profile = cProfile.Profile()
    profile.runcall(lambda: Tokenizer.load(place).ids)
    pstats.Stats(profile).sort_stats("tottime").print_stats(20)


if __name__ == "__main__":
    main()
