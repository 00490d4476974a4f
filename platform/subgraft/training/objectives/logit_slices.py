"""How many tokens' logits exist at a time."""

from __future__ import annotations

# Logits of one slice, in elements: 2 M of fp32 are 8 MB, which stays in a cache.
SLICE_ELEMENTS = 1 << 21
# Every slice adds to the whole gradient of the projection [V, d]. So a slice has at least d / LEAST_SHARE tokens, whose
# logits take a quarter of that gradient's bytes. On small vocabularies SLICE_ELEMENTS allows more tokens.
LEAST_SHARE = 4
# From this vocabulary size on, a slice of a loss has d tokens, at least LEAST_ROWS. Its logits then take as many bytes
# as the projection's gradient, and adding to that gradient no longer dominates the time. Smaller batches have whole
# logits, which is faster for them (benchmarks/large_softmax.py).
LARGE_VOCABULARY, LEAST_ROWS = 100_000, 256


def slice_rows(vocabulary: int, width: int) -> int:
    """The number of tokens in a slice of logits, for hidden states of this width."""
    return max(1, SLICE_ELEMENTS // vocabulary, width // LEAST_SHARE)


def loss_slice_rows(vocabulary: int, width: int) -> int:
    """The same for losses, whose gradient is computed with them."""
    return slice_rows(vocabulary, width) if vocabulary < LARGE_VOCABULARY else max(LEAST_ROWS, width)
