"""Masked sequence-to-sequence pretraining: predict the masked span of a block (MASS; Song et al., ICML 2019).

The decoder generates only the span, whose positions start at 0; in MASS it has the positions of the block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from subgraft.base.limits import MAX_SEQUENCE_LENGTH
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    import numpy as np

    from subgraft.training.objectives.compute.blocks import Blocks
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs
    from subgraft.training.objectives.compute.seq2seq import Example


class MaskedSeq2SeqSettings(AnyObjective):
    """MASS (Song et al., ICML 2019): the decoder predicts a span of tokens, each of which is masked in the encoder.

    share: the fraction of a block's tokens in the span.
    block_tokens: the maximum number of tokens of a block of sentences of one document; the training's max_length by
    default.
    """

    kind: Literal["masked-seq2seq"] = "masked-seq2seq"
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    block_tokens: Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)] | None = None

    needs_mask = True
    draws_blocks = True
    sampled_as = "decoder"
    samples = True

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.training.objectives.compute.blocks import blocks_of, concatenate_blocks
        from subgraft.training.objectives.compute.seq2seq import Seq2SeqObjective

        blocks_by_language = blocks_of(request, self.block_tokens)
        examples = concatenate_blocks(
            request, [(blocks, MaskedSpans(blocks, self, request.seed)) for blocks in blocks_by_language]
        )
        return Seq2SeqObjective(request.bundle, examples, sum(blocks.truncated for blocks in blocks_by_language))


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
        import numpy as np

        from subgraft.training.objectives.compute.seq2seq import Example

        body = self._blocks.example(index, epoch)
        size = min(len(body), max(1, round(self._share * len(body))))
        generator = np.random.default_rng([self._seed, epoch, index])
        begin = int(generator.integers(len(body) - size + 1))
        source = [*body[:begin], *[self._mask] * size, *body[begin + size :]]
        return Example.of(source, body[begin : begin + size], self._blocks.form)
