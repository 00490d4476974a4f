"""Settings of the pretraining objectives that BART is compared with (Lewis et al., ACL 2020, section 4.1)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from subgraft.base.limits import LONGEST_SEQUENCE
from subgraft.config.any_objective import AnyObjective

_Part = Annotated[float, Field(gt=0.0, le=1.0)]
_BlockTokens = Annotated[int, Field(ge=4, le=LONGEST_SEQUENCE)] | None


class MultitaskMaskedSettings(AnyObjective):
    """UniLM's masking (Dong et al., NeurIPS 2019): BERT's, where 1/6 of the blocks are read from left to right, 1/6
    from right to left, 1/3 in both directions, and 1/3 in both in their first half and from left to right in the rest.

    share: the fraction of the tokens to predict. block_tokens: the most tokens of a block of sentences of one document;
    the training's max_length by default.
    """

    kind: Literal["multitask-masked"] = "multitask-masked"
    share: _Part = 0.15
    block_tokens: _BlockTokens = None

    needs_mask = True
    draws_blocks = True
    writes = False

    @property
    def longest_block(self) -> int | None:
        return self.block_tokens


class MaskedSeq2SeqSettings(AnyObjective):
    """MASS (Song et al., ICML 2019): the decoder predicts a span of tokens, each of which is masked in the encoder.

    share: the fraction of a block's tokens in the span. block_tokens: the most tokens of a block of sentences of one
    document; the training's max_length by default.
    """

    kind: Literal["masked-seq2seq"] = "masked-seq2seq"
    share: _Part = 0.5
    block_tokens: _BlockTokens = None

    needs_mask = True
    draws_blocks = True
    sampled_as = "decoder"
    samples = True

    @property
    def longest_block(self) -> int | None:
        return self.block_tokens
