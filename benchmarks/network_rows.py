"""Rows of 13,000 new tokens by a network, as ratios to those by the mean of their pieces.

    SUBGRAFT_DATA=… python benchmarks/network_rows.py [--threads 2]

French: 8,000 subwords of everyday sentences, and new ones of laws and manuals. The network is as large as a trained
one and starts from the mean, so both make the same rows (asserted).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from subgraft.data.text import reading
from subgraft.embeddings.generators.network import Network, NetworkShape, TokenPieces, commonness, generate_rows
from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, mix_subwords
from subgraft.modeling.sides import Side
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

NEW_TOKENS, WIDTH, REPEATS = 13_000, 256, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    os.environ["RAYON_NUM_THREADS"] = str(arguments.threads)
    upstream = learn(_text("tatoeba"), kind="unigram", size=8000, byte_fallback=True, max_lines=50_000)
    downstream = learn(
        chain(_text("laws"), _text("itdocs")), kind="unigram", size=24_000, byte_fallback=True, max_lines=120_000
    )
    new = [token for entry, token in downstream.ids.items() if entry not in upstream.ids][:NEW_TOKENS]
    entries = [entry for token in new if (entry := downstream.entries[token]) is not None]
    side = _side(upstream)
    request = InitialiserInputs(side, upstream, entries, 0, 1.0, 0, 10, None, common=commonness(downstream)[new])
    network = Network(NetworkShape.of(side, 256, 2))
    network.begin(side, torch.from_numpy(upstream.ordinary_ids), seed=1)

    def by_network() -> Tensor:
        pieces = TokenPieces.of(request.source, request.entries, request.common)
        return generate_rows(network, request.side, pieces)

    mean, by_mean = _timed(lambda: mix_subwords(request).input)
    rows, networked = _timed(by_network)
    torch.testing.assert_close(rows[:, :WIDTH], mean)
    print(f"{len(entries):,} new tokens, {arguments.threads} threads, the median of {REPEATS}")
    print(f"mean of the pieces   {by_mean:6.2f} s")
    print(f"network              {networked:6.2f} s  {networked / by_mean:5.1f} times the mean")


def _side(vocabulary: Tokenizer) -> Side:
    table = nn.Embedding(len(vocabulary), WIDTH)
    nn.init.normal_(table.weight, std=0.06, generator=torch.Generator().manual_seed(1))
    return Side("decoder", table, None, None, True, None)


def _text(corpus: str) -> Iterator[str]:
    mirror = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    return reading.lines(Path(os.environ.get("SUBGRAFT_DATA", mirror)) / f"en-fr/{corpus}/train.fr.gz")


def _timed(action: Callable[[], Tensor]) -> tuple[Tensor, float]:
    seconds: list[float] = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        result = action()
        seconds.append(time.perf_counter() - start)
    return result, median(seconds)


if __name__ == "__main__":
    main()
