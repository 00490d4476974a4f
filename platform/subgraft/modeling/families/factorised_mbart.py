# mypy: allow-untyped-calls
"""mBART whose embeddings are narrower than its hidden states, as ALBERT's are (Lan et al., ICLR 2020, section 3.1).

Tables are [V, `embedding_size`]. One projection leads from them to the hidden states of both stacks and, transposed,
from the decoder's states back to what the table predicts by. Encoder and decoder share a table (`shared_table`), or
have vocabularies of their own, as a split mBART's.

This file and split_mbart.py are copied into every directory that is saved with it, so that AutoModelForSeq2SeqLM can
load it where remote code is allowed: it imports nothing else but torch and transformers.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import initialization as init
from transformers.models.mbart.modeling_mbart import (
    MBartDecoder,
    MBartEncoder,
    MBartPreTrainedModel,
    MBartScaledWordEmbedding,
)

from .split_mbart import SplitMBartConfig, SplitMBartForConditionalGeneration, SplitMBartModel


class FactorisedMBartConfig(SplitMBartConfig):
    """`embedding_size`: the width of the tables.  `shared_table`: whether both sides read one; then their vocabularies
    are one too, and `vocab_size` is `decoder_vocab_size`."""

    model_type = "factorised_mbart"

    embedding_size: int = 512
    shared_table: bool = False


class _Projected(MBartPreTrainedModel):
    """What both stacks have: a table, and the projection that its rows go through.

    `inputs_embeds` [batch, length, embedding_size] are rows as the table gives them.
    """

    def __init__(self, config: FactorisedMBartConfig, size: int, padding_id: Any) -> None:
        super().__init__(config)
        scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.embed_tokens = MBartScaledWordEmbedding(size, config.embedding_size, padding_id, embed_scale=scale)
        self.embed_projection = nn.Linear(config.embedding_size, config.d_model, bias=False)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if module is getattr(self, "embed_projection", None):
            # Initial hidden states have the scale of an mBART's without projection.
            init.normal_(module.weight, std=module.in_features**-0.5)

    def forward(self, input_ids: Tensor | None = None, inputs_embeds: Tensor | None = None, **kwargs: Any) -> Any:
        """Of the stack itself, by keyword."""
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("give either input_ids or inputs_embeds")
        rows = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        return super().forward(inputs_embeds=self.embed_projection(rows), **kwargs)


class FactorisedMBartEncoder(_Projected, MBartEncoder):
    """mBART's encoder over narrower embeddings."""

    def __init__(self, config: FactorisedMBartConfig) -> None:
        super().__init__(config, config.vocab_size, config.encoder_pad_token_id)


class FactorisedMBartDecoder(_Projected, MBartDecoder):
    """mBART's decoder over narrower embeddings."""

    def __init__(self, config: FactorisedMBartConfig) -> None:
        super().__init__(config, config.decoder_vocab_size, config.pad_token_id)


class FactorisedHead(nn.Linear):
    """Logits [.., V] of states [.., d]: the projection, transposed, then the table [V, embedding_size]."""

    def __init__(self, config: FactorisedMBartConfig) -> None:
        super().__init__(config.embedding_size, config.decoder_vocab_size, bias=False)
        self.embed_projection = nn.Linear(config.embedding_size, config.d_model, bias=False)

    def narrowed(self, states: Tensor) -> Tensor:
        """States [.., embedding_size], as the table's rows are."""
        return linear(states, self.embed_projection.weight.T)

    def forward(self, states: Tensor) -> Tensor:
        return super().forward(self.narrowed(states))


class FactorisedMBartModel(SplitMBartModel):
    """mBART's encoder and decoder, with one projection."""

    config_class = FactorisedMBartConfig

    def __init__(self, config: FactorisedMBartConfig) -> None:
        MBartPreTrainedModel.__init__(self, config)
        self.encoder = FactorisedMBartEncoder(config)
        self.decoder = FactorisedMBartDecoder(config)
        self._tied_weights_keys = {"encoder.embed_projection.weight": "decoder.embed_projection.weight"}
        if config.shared_table:
            self._tied_weights_keys["encoder.embed_tokens.weight"] = "decoder.embed_tokens.weight"
        self.post_init()


class FactorisedMBartForConditionalGeneration(SplitMBartForConditionalGeneration):
    """Translation, denoising and any other sequence-to-sequence task. Logits and labels are in the decoder's
    vocabulary, which may be the encoder's too."""

    config_class = FactorisedMBartConfig
    _tied_weights_keys = {  # noqa: RUF012
        "lm_head.weight": "model.decoder.embed_tokens.weight",
        "lm_head.embed_projection.weight": "model.decoder.embed_projection.weight",
    }

    def __init__(self, config: FactorisedMBartConfig) -> None:
        MBartPreTrainedModel.__init__(self, config)
        self.model = FactorisedMBartModel(config)
        self.final_logits_bias = nn.Buffer(torch.zeros((1, config.decoder_vocab_size)))
        self.lm_head = FactorisedHead(config)
        self.post_init()


FactorisedMBartConfig.register_for_auto_class()
FactorisedMBartForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
