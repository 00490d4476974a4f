"""How costs grow: CPU seconds over sizes ten times apart, and the exponent between them (1: in proportion).

    python benchmarks/growth.py [--quick]

Similar tokens, by upstream entries and by new tokens; the index by itself; applying a generator, by width; encoding, by
lines; a batch plan, by sentences; a training step, by width and by tokens. Vocabularies are of invented syllables.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from generator_scores import similar_pairs
from measurements import Measurements, measurements, options
from precision import model, pass_both_ways
from subgraft.data.text.batches import BatchPlan
from subgraft.embeddings.generators.generator import Generator
from subgraft.subwords.similar_tokens.finder import SimilarTokenFinder
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from transfer_memory import invented_tokenizer

REPEATS = 3


def main() -> None:
    args = options(__doc__).parse_args()
    torch.set_num_threads(1)
    part = 10 if args.quick else 1
    with measurements(__doc__, args) as table:
        _vocabularies(table, 250_000 // part, 20_000 // part)
        _generators(table)
        _text(table, 1_000_000 // part)
        _steps(table)


def _vocabularies(table: Measurements, entries: int, new: int) -> None:
    sizes = (entries // 10, entries)
    upstream = {size: invented_tokenizer(size, seed=1) for size in sizes}
    unknown = [entry for entry in invented_tokenizer(2 * new, seed=2).ids if entry not in upstream[entries].ids]
    tokens = unknown[:new]
    finders = {size: SimilarTokenFinder(upstream[size]) for size in sizes}
    _grow(table, "index, by entries", {size: partial(SimilarTokenFinder, upstream[size]) for size in sizes})
    _grow(table, "similar, by entries", {size: partial(finders[size].find, tokens) for size in sizes})
    counts = (len(tokens) // 10, len(tokens))
    _grow(table, "similar, by new tokens", {count: partial(finders[entries].find, tokens[:count]) for count in counts})
    _encoding(table, upstream[sizes[0]], 20 * new)


def _encoding(table: Measurements, tokenizer: Tokenizer, lines: int) -> None:
    words = [entry.surface for entry in tokenizer.ids if entry.word_initial]
    chosen = np.random.default_rng(1).integers(len(words), size=(lines, 10))
    text = [" ".join(words[word] for word in line) for line in chosen]
    sizes = (lines // 10, lines)
    _grow(table, "encoding, by lines", {size: partial(tokenizer.encode_batch, text[:size]) for size in sizes})


def _generators(table: Measurements) -> None:
    widths, tokens, rows = (100, 1000), (1000, 10_000), 20_000

    def apply(count: int, width: int) -> Callable[[], object]:
        vectors, patt, similar = torch.randn(rows, width), Generator("patt", width), similar_pairs(count, rows)
        return lambda: torch.autograd.backward(patt(vectors, similar).square().sum())

    _grow(table, "generator, by width", {width: apply(tokens[1], width) for width in widths})
    _grow(table, "generator, by new tokens", {count: apply(count, widths[1]) for count in tokens})


def _text(table: Measurements, sentences: int) -> None:
    lengths = np.random.default_rng(1).integers(5, 100, size=sentences)

    def plan(size: int) -> Callable[[], object]:
        return lambda: BatchPlan(lengths[:size], 4000, seed=1).epoch(0)

    _grow(table, "batch plan, by sentences", {size: plan(size) for size in (sentences // 10, sentences)})


def _steps(table: Measurements) -> None:
    """Of a small model the vocabulary counts for much, which grows with the width alone."""
    _grow(
        table, "training step, by width", {width: partial(pass_both_ways, model(width, 2), 16) for width in (64, 640)}
    )
    small = model(256, 2)
    _grow(table, "training step, by sentences", {size: partial(pass_both_ways, small, size) for size in (8, 80)})


def _grow(table: Measurements, what: str, works: dict[int, Callable[[], object]]) -> None:
    """The least of some times of each, since others may be at work too."""
    sizes, seconds = list(works), []
    for work in works.values():
        work()
        taken = []
        for _ in range(REPEATS):
            began = time.process_time()
            work()
            taken.append(time.process_time() - began)
        seconds.append(min(taken))
    exponent = math.log(seconds[1] / seconds[0]) / math.log(sizes[1] / sizes[0])
    table.add(what, of=sizes[0], to=sizes[1], seconds_of=seconds[0], seconds_to=seconds[1], exponent=exponent)


if __name__ == "__main__":
    main()
