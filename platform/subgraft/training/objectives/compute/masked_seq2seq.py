"""Masked sequence-to-sequence pretraining: predict the masked span of a block (MASS; Song et al., ICML 2019).

The decoder generates only the span, whose positions start at 0; in MASS it has the positions of the block.
"""

from __future__ import annotations

import numpy as np

from subgraft.config.compared_objectives import MaskedSeq2SeqSettings
from subgraft.training.objectives.compute.blocks import Blocks, blocks_of, concatenate_blocks
from subgraft.training.objectives.compute.interface import Request
from subgraft.training.objectives.compute.seq2seq import Example, Seq2SeqObjective


class MaskedSpans:
    """Examples of the blocks of one language. The position of the span is a function of (seed, epoch, index)."""

    def __init__(self, blocks: Blocks, settings: MaskedSeq2SeqSettings, seed: int) -> None:
        self._blocks, self._share, self._seed = blocks, settings.share, seed
        self._mask = blocks.tokenizer.special["mask"]

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def lengths(self) -> np.ndarray:
        return self._blocks.lengths

    def example(self, index: int, epoch: int) -> Example:
        body = self._blocks.example(index, epoch)
        size = min(len(body), max(1, round(self._share * len(body))))
        generator = np.random.default_rng([self._seed, epoch, index])
        begin = int(generator.integers(len(body) - size + 1))
        source = [*body[:begin], *[self._mask] * size, *body[begin + size :]]
        return Example.of(source, body[begin : begin + size], self._blocks.form)


def mask_spans(settings: MaskedSeq2SeqSettings, request: Request) -> Seq2SeqObjective:
    """Masked spans of the text of each language."""
    blocks_by_language = blocks_of(request, settings.block_tokens)
    examples = concatenate_blocks(
        request, [(blocks, MaskedSpans(blocks, settings, request.seed)) for blocks in blocks_by_language]
    )
    return Seq2SeqObjective(request.bundle, examples, sum(blocks.cut for blocks in blocks_by_language))
