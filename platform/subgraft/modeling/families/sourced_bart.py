# mypy: allow-untyped-calls
"""A BART that reads a foreign language by a small new encoder in the place of its encoder's embeddings.

Lewis et al. (ACL 2020), section 3.4: the new encoder has a vocabulary of its own and maps foreign words to inputs that
the BART can restore. This file is copied into every directory that is saved with it, so that AutoModelForSeq2SeqLM can
load it where remote code is allowed: it imports nothing but torch and transformers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import BartConfig, BartForConditionalGeneration
from transformers.models.bart.modeling_bart import BartEncoder, BartModel, BartPreTrainedModel


class SourcedBartConfig(BartConfig):
    """A BART's configuration, and the size, the padding id and the layers of its source encoder."""

    model_type = "sourced_bart"

    source_vocab_size: int = 50265
    source_pad_token_id: int | None = 1
    source_layers: int = 2


class SourcedBartEncoder(BartEncoder):
    """BART's encoder over the states of `source`, an encoder of its own with positions and embeddings."""

    config_class = SourcedBartConfig

    def __init__(self, config: SourcedBartConfig) -> None:
        super().__init__(config)
        own: dict[str, Any] = {"vocab_size": config.source_vocab_size, "encoder_layers": config.source_layers}
        own["pad_token_id"] = config.source_pad_token_id
        self.source = BartEncoder(BartConfig.from_dict({**config.to_dict(), **own}))
        self.post_init()

    def forward(self, input_ids: Any = None, attention_mask: Any = None, inputs_embeds: Any = None, **rest: Any) -> Any:
        """input_ids and inputs_embeds are the source encoder's."""
        read = self.source(input_ids=input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds)
        return super().forward(attention_mask=attention_mask, inputs_embeds=read.last_hidden_state, **rest)


class SourcedBartModel(BartModel):
    """BART's encoder and decoder, the encoder behind a source encoder."""

    config_class = SourcedBartConfig

    def __init__(self, config: SourcedBartConfig) -> None:
        super().__init__(config)
        self.encoder = SourcedBartEncoder(config)
        self.post_init()

    def forward(self, input_ids: Any = None, **kwargs: Any) -> Any:
        """As BART's, which would give the decoder the source's ids if it got none."""
        if kwargs.get("decoder_input_ids") is None and kwargs.get("decoder_inputs_embeds") is None:
            raise ValueError("give decoder_input_ids or labels: the source's ids mean nothing to the decoder")
        return super().forward(input_ids=input_ids, **kwargs)


class SourcedBartForConditionalGeneration(BartForConditionalGeneration):
    """Labels and decoder ids are in the BART's vocabulary, input_ids in the source encoder's."""

    config_class = SourcedBartConfig

    def __init__(self, config: SourcedBartConfig) -> None:
        BartPreTrainedModel.__init__(self, config)
        self.model = SourcedBartModel(config)
        self.final_logits_bias = nn.Buffer(torch.zeros((1, config.vocab_size)))
        self.lm_head = nn.Linear(self.model.shared.embedding_dim, config.vocab_size, bias=False)
        self.post_init()


SourcedBartConfig.register_for_auto_class()
SourcedBartForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
