# mypy: allow-untyped-calls
"""mBART whose encoder and decoder have vocabularies of their own.

`MBartForConditionalGeneration` keeps one table for the encoder, the decoder and the output projection. Here the
encoder has `vocab_size` rows and the decoder `decoder_vocab_size`; the output projection follows the decoder's table,
tied to it or not as `tie_word_embeddings` says.

This file is copied into every directory that is saved with it, so that AutoModelForSeq2SeqLM can load it where remote
code is allowed: it imports nothing but torch and transformers.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import MBartConfig, MBartForConditionalGeneration
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.models.mbart.modeling_mbart import (
    MBartDecoder,
    MBartEncoder,
    MBartModel,
    MBartPreTrainedModel,
    MBartScaledWordEmbedding,
    shift_tokens_right,
)


class SplitMBartConfig(MBartConfig):
    """An mBART configuration with a second vocabulary size and a second padding id.

    `vocab_size` and `encoder_pad_token_id` are the encoder's; `decoder_vocab_size` and every other token id (padding,
    start, end, forced ones) are the decoder's, because generation reads them.
    """

    model_type = "split_mbart"

    decoder_vocab_size: int = 50265
    encoder_pad_token_id: int | None = 1


class SplitMBartModel(MBartModel):
    """mBART's encoder and decoder, with no table between them."""

    config_class = SplitMBartConfig
    _tied_weights_keys: dict[str, str] = {}  # noqa: RUF012

    def __init__(self, config: SplitMBartConfig) -> None:
        # MBartModel's own constructor would make the shared table.
        MBartPreTrainedModel.__init__(self, config)
        self.encoder = MBartEncoder(config)
        self.decoder = MBartDecoder(config)
        self.encoder.embed_tokens = _table(config, config.vocab_size, config.encoder_pad_token_id)
        self.decoder.embed_tokens = _table(config, config.decoder_vocab_size, config.pad_token_id)
        self.post_init()

    def get_input_embeddings(self) -> nn.Embedding:
        """The encoder's table; the decoder's is `decoder.embed_tokens`."""
        return self.encoder.embed_tokens

    def set_input_embeddings(self, value: Any) -> None:
        self.encoder.embed_tokens = value


def _table(config: SplitMBartConfig, size: int, padding_id: Any) -> MBartScaledWordEmbedding:
    scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
    return MBartScaledWordEmbedding(size, config.d_model, padding_id, embed_scale=scale)


class SplitMBartForConditionalGeneration(MBartForConditionalGeneration):
    """Translation, denoising and any other sequence-to-sequence task with a vocabulary per side.

    Logits are [batch, target length, decoder_vocab_size]; labels and decoder ids are in the decoder's vocabulary.
    """

    config_class = SplitMBartConfig
    _tied_weights_keys = {"lm_head.weight": "model.decoder.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: SplitMBartConfig) -> None:
        MBartPreTrainedModel.__init__(self, config)
        self.model = SplitMBartModel(config)
        self.final_logits_bias = nn.Buffer(torch.zeros((1, config.decoder_vocab_size)))
        self.lm_head = nn.Linear(config.d_model, config.decoder_vocab_size, bias=False)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: Any = None,
        past_key_values: Any = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """A Seq2SeqLMOutput, or a tuple where `return_dict` is false.

        The loss is over the decoder's vocabulary, where mBART's own assumes the encoder's.
        """
        if labels is not None:
            kwargs["use_cache"] = False
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                padding: Any = self.config.pad_token_id
                decoder_input_ids = shift_tokens_right(labels, padding)
        elif decoder_input_ids is None and decoder_inputs_embeds is None:
            raise ValueError("give decoder_input_ids or labels: the encoder's ids mean nothing to the decoder")
        outputs = super().forward(
            input_ids=input_ids,
            attention_mask=attention_mask,
            decoder_input_ids=decoder_input_ids,
            decoder_attention_mask=decoder_attention_mask,
            encoder_outputs=encoder_outputs,
            past_key_values=past_key_values,
            inputs_embeds=inputs_embeds,
            decoder_inputs_embeds=decoder_inputs_embeds,
            **kwargs,
        )
        if labels is None:
            return outputs
        loss = cross_entropy(outputs[0].reshape(-1, outputs[0].shape[-1]), labels.reshape(-1))
        return (loss, *outputs) if isinstance(outputs, tuple) else Seq2SeqLMOutput(loss=loss, **outputs)

    def resize_token_embeddings(self, *args: Any, **kwargs: Any) -> nn.Embedding:
        """Not for two vocabularies: the call does not say which one it means."""
        raise NotImplementedError("a split mBART has two vocabularies; transplant a new one instead of resizing")


SplitMBartConfig.register_for_auto_class()
SplitMBartForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
