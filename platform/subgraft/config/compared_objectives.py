"""Settings of objectives that BART is compared with (Lewis et al., ACL 2020, section 4.1): UniLM's, MASS's, XLNet's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_SEQUENCE_LENGTH
from subgraft.config.any_objective import AnyObjective
from subgraft.config.settings_base import Count, MemoryTokens

_Part = Annotated[float, Field(gt=0.0, le=1.0)]
_BlockTokens = Annotated[int, Field(ge=4, le=MAX_SEQUENCE_LENGTH)] | None


class MultitaskMaskedSettings(AnyObjective):
    """UniLM's masking (Dong et al., NeurIPS 2019): BERT's, where 1/6 of the blocks are read from left to right, 1/6
    from right to left, 1/3 in both directions, and 1/3 in both in their first half and from left to right in the rest.

    share: the fraction of the tokens to predict. block_tokens: the maximum number of tokens of a block of sentences of
        one document;
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

    share: the fraction of a block's tokens in the span. block_tokens: the maximum number of tokens of a block of
        sentences of one
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


class PermutationSettings(AnyObjective):
    """XLNet's permutation language modelling (Yang et al., NeurIPS 2019, section 2).

    Tokens are predicted one after another in a random order, each given the context and the targets before it.
    input: sentences reads each line alone; doc-sentences reads blocks of consecutive sentences of one document;
    segment-pair reads such blocks in two segments, of which the second is from another document half of the time.
    block_tokens: the maximum number of tokens of a block; the training's max_length by default.
    partial_prediction: K of section 2.3: one of K tokens is predicted, the others are context; 1 predicts all.
    spans: whether targets are spans of 1 to 5 tokens, each in a context of K times its length, and not single tokens.
    bidirectional: whether half of the documents are read backwards, a different half in every epoch.
    memory_tokens: how many states of the document's earlier blocks a block can attend to (384 in the paper).
    next_sentence: whether the state of <cls> also predicts if the second segment follows the first; the head for it is
    not part of the model.
    """

    kind: Literal["permutation"] = "permutation"
    input: Literal["sentences", "doc-sentences", "segment-pair"] = "sentences"
    block_tokens: Annotated[int, Field(ge=8, le=MAX_SEQUENCE_LENGTH)] | None = None
    partial_prediction: Count = 6
    spans: bool = True
    bidirectional: bool = True
    memory_tokens: MemoryTokens = 0
    next_sentence: bool = False

    writes = False

    @property
    def longest_block(self) -> int | None:
        return self.block_tokens

    @property
    def ordered(self) -> bool:
        return self.memory_tokens > 0

    @model_validator(mode="after")
    def _inputs_have_documents(self) -> PermutationSettings:
        if self.memory_tokens and self.input == "sentences":
            raise ValueError("memory_tokens needs earlier blocks of a document: write input: doc-sentences")
        if self.next_sentence and self.input != "segment-pair":
            raise ValueError("next_sentence needs two segments: write input: segment-pair")
        return self
