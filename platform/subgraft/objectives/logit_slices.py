"""How many tokens' logits exist at a time."""

from __future__ import annotations

# Logits of one slice, in elements: 2 M of fp32 are 8 MB, which stays in a cache.
SLICE_ELEMENTS = 1 << 21
# Every slice adds to the projection's gradient [V, d], all of it. So a slice has at least this share of d tokens: then
# its logits take a quarter of what that gradient does. On smaller vocabularies SLICE_ELEMENTS is more.
LEAST_SHARE = 4


def slice_rows(vocabulary: int, width: int) -> int:
    """How many tokens a slice has, of logits over so many subwords from states of this width."""
    return max(1, SLICE_ELEMENTS // vocabulary, width // LEAST_SHARE)
