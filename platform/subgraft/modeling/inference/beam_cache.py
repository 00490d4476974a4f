"""Keys and values of a beam search, where the beams of one sentence share what they know of its source."""

from __future__ import annotations

import torch
from transformers import DynamicCache, EncoderDecoderCache


class BeamCache(EncoderDecoderCache):
    """The cache of an encoder-decoder model that leaves the source's part where it is.

    After each token, beams are rearranged within their sentence, and transformers copies the keys and values of all of
    them. Those of the source are the same for every beam of a sentence: copying them took a third of a search.
    """

    def __init__(self) -> None:
        super().__init__(DynamicCache(), DynamicCache())

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        self.self_attention_cache.reorder_cache(beam_idx)
