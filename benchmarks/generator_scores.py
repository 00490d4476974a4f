"""Scores of similar tokens in a table of 250,000 rows: of all rows, or of those used; by how many new tokens there are.

    python benchmarks/generator_scores.py [--rows V] [--width D]

A training step has some hundred simulated tokens, a transfer thousands of new ones; forward and backward.
"""

from __future__ import annotations

import statistics
import time
from unittest.mock import patch

import torch

from measurements import measurements, options
from subgraft.embeddings.generators import generator
from subgraft.embeddings.generators.generator import Generator, RaggedSimilar

SIMILAR = 9  # of a token
REPEATS = 5


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--width", type=int, default=1024)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    table = torch.randn(arguments.rows, arguments.width)
    patt = Generator("patt", arguments.width)
    with measurements(__doc__, arguments) as results:
        for tokens in (100, 300, 1000, 3000, 13_000):
            similar = similar_pairs(tokens, arguments.rows)
            whole, used = (_seconds(patt, table, similar, threshold) for threshold in (arguments.rows + 1, 0))
            results.add(f"{tokens:,} new tokens", all_rows=whole, those_used=used, ratio=whole / used)


def similar_pairs(tokens: int, rows: int) -> RaggedSimilar:
    """Common upstream tokens oftener than others, as hyperwords are."""
    count = tokens * SIMILAR
    ids = (torch.rand(count) ** 2 * rows).long()
    of = torch.arange(tokens).repeat_interleave(SIMILAR)
    return RaggedSimilar(torch.arange(tokens + 1) * SIMILAR, ids, torch.arange(count) % 6, of, torch.arange(rows))


def _seconds(patt: Generator, table: torch.Tensor, similar: RaggedSimilar, threshold: int) -> float:
    """threshold: how large a table is whose used rows are picked out."""
    taken = []
    with patch.multiple(generator, LARGE_TABLE=threshold, ROWS_TO_A_PAIR=0):
        for _ in range(REPEATS):
            began = time.process_time()
            torch.autograd.backward(patt.mixing_weights(table, similar).square().sum())
            taken.append(time.process_time() - began)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
