# mypy: allow-untyped-calls
"""BERT (Devlin et al., 2019) with its masked language modelling head, and ELECTRA's generator, a BERT with narrower
embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families.encoder_only import EncoderOnly
from subgraft.modeling.families.family import ITS_VOCABULARY
from subgraft.modeling.families.model_parts import Config

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

    from subgraft.config.models import BertSettings
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class Bert(EncoderOnly):
    """New models have a tied output projection, and segment embeddings that are not used."""

    model_type = "bert"
    transformers_class = "BertForMaskedLM"
    stack_class, decoder_class = "BertModel", "BertLMHeadModel"
    head = "cls.predictions"

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        transform: Callable[[Tensor], Tensor] = head.transform
        return transform

    def described(self, settings: BertSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        """Settings with `embedding_width` describe an ELECTRA generator."""
        narrow = settings.embedding_width
        return {
            "model_type": self.model_type if narrow is None else Electra.model_type,
            "vocab_size": decoder_size,
            "hidden_size": settings.d_model,
            "num_hidden_layers": settings.layers,
            "num_attention_heads": settings.attention_heads,
            "intermediate_size": settings.ffn_dim,
            "max_position_embeddings": settings.max_positions,
            **({} if narrow is None else {"embedding_size": narrow}),
        }

    def build(self, settings: BertSettings, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        if settings.embedding_width is not None and not isinstance(self, Electra):
            return Electra().build(settings, encoder, decoder, seed)
        return super().build(settings, encoder, decoder, seed)

    def new_config(self, settings: BertSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        return {
            **self.described(settings, len(encoder), len(decoder)),
            "hidden_dropout_prob": settings.dropout,
            "attention_probs_dropout_prob": settings.attention_dropout,
            "pad_token_id": decoder.special["pad"],
        }


class Electra(Bert):
    """ELECTRA's generator (Clark et al., ICLR 2020): embeddings may be narrower than hidden states.

    BERT settings with `embedding_width` build one. A linear layer maps embeddings to the model's width, and another,
    in the head, maps top states back to the width of the embeddings.
    """

    model_type = "electra"
    transformers_class = "ElectraForMaskedLM"
    stack_class, decoder_class = "ElectraModel", "ElectraForCausalLM"
    head = "generator_predictions"
    bias_named_twice = False

    def check(self, config: Config) -> None:
        super().check(config)
        if config.get("architectures") == ["ElectraForPreTraining"]:
            raise UserError(
                "this is an ELECTRA discriminator, which has no head that predicts tokens",
                hint="Give the generator that was pretrained with it (electra-small-generator for "
                f"electra-small-discriminator). {ITS_VOCABULARY}",
            )

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        transform: Callable[[Tensor], Tensor] = head
        return transform

    def new_stack(self, stack_class: Any, config: Any) -> PreTrainedModel:
        """transformers' ELECTRA never has a pooler."""
        stack: PreTrainedModel = stack_class(config)
        return stack
