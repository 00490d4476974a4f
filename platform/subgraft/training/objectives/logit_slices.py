"""How many tokens' logits exist at a time."""

from __future__ import annotations

# Logits of one slice, in elements: 2 M of fp32 are 8 MB, which stays in a cache.
SLICE_ELEMENTS = 1 << 21
# Every slice adds to the projection's gradient [V, d], all of it. So a slice has at least this share of d tokens: then
# its logits take a quarter of that gradient's bytes. On smaller vocabularies SLICE_ELEMENTS is more.
LEAST_SHARE = 4
# Of a vocabulary from this size on, a slice of a loss has as many tokens as the width, and LEAST_ROWS at least: its
# logits take about what that gradient takes anyway, and adding to it is no longer what a training waits for. So batches
# of fewer tokens have whole logits, which is faster for them (benchmarks/large_softmax.py).
LARGE_VOCABULARY, LEAST_ROWS = 100_000, 256


def slice_rows(vocabulary: int, width: int) -> int:
    """How many tokens a slice has, of logits over so many subwords from states of this width."""
    return max(1, SLICE_ELEMENTS // vocabulary, width // LEAST_SHARE)


def loss_slice_rows(vocabulary: int, width: int) -> int:
    """The same where a gradient is taken with the loss."""
    return slice_rows(vocabulary, width) if vocabulary < LARGE_VOCABULARY else max(LEAST_ROWS, width)
