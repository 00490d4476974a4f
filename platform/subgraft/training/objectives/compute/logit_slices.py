"""The number of tokens whose logits are in memory at a time."""

from __future__ import annotations

# The number of logits in a slice: 2 M in fp32 take 8 MB, which fits into a cache.
SLICE_ELEMENTS = 1 << 21
# Every slice adds to the complete gradient of the projection [V, d]. So a slice has at least d / MIN_WIDTH_SHARE
# tokens, whose logits take a quarter of that gradient's bytes. For small vocabularies SLICE_ELEMENTS allows more.
MIN_WIDTH_SHARE = 4
# From this vocabulary size on, a slice of a loss has d tokens, at least MIN_ROWS. Its logits then take as many bytes as
# the projection's gradient, and adding to that gradient no longer dominates the time. The logits of smaller batches are
# not sliced, which is faster (benchmarks/large_softmax.py).
LARGE_VOCABULARY, MIN_ROWS = 100_000, 256
# On a GPU, whose memory is not a cache, a slice has at least so many logits: half a GiB in fp32. For 49,152 subwords of
# width 576 these are 2,730 tokens, and adding to the projection's gradient (12 bytes an element) moves a thirteenth of
# the bytes of the logits (34). With 144 tokens, as on a CPU, it would move more than they do, in nineteen times as many
# launches. This is counted, not measured.
GPU_SLICE_ELEMENTS = 1 << 27


def slice_rows(vocabulary: int, width: int, on_gpu: bool = False) -> int:
    """The number of tokens in a slice of logits, for hidden states of this width."""
    elements = GPU_SLICE_ELEMENTS if on_gpu else SLICE_ELEMENTS
    return max(1, elements // vocabulary, width // MIN_WIDTH_SHARE)


def loss_slice_rows(vocabulary: int, width: int, on_gpu: bool = False) -> int:
    """The same for losses, whose gradient is computed with them."""
    rows = slice_rows(vocabulary, width, on_gpu)
    return rows if vocabulary < LARGE_VOCABULARY else max(rows if on_gpu else 0, MIN_ROWS, width)
