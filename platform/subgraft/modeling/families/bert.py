# mypy: allow-untyped-calls
"""BERT (Devlin et al., 2019) and other encoders with a masked language modelling head.

Configurations build BERTs and ELECTRA generators; the others are taken from checkpoints only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.config.models import BertSettings, RobertaSettings
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.encoder_only import EncoderOnly
from subgraft.modeling.families.family import ITS_VOCABULARY
from subgraft.modeling.families.heads import NEXT_SENTENCE, Head
from subgraft.modeling.families.model_parts import Config, Projection

if TYPE_CHECKING:
    from torch import Tensor

    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class Bert(EncoderOnly):
    """New models have a tied output projection."""

    model_type = "bert"
    transformers_class = "BertForMaskedLM"
    next_sentence_class: ClassVar[str | None] = "BertForPreTraining"
    objectives = BertSettings.objectives
    stack_class: ClassVar[str | None] = "BertModel"
    decoder_class: ClassVar[str | None] = "BertLMHeadModel"
    head, transforming = "cls.predictions", "transform"
    ctranslate2_encoder: ClassVar[str | None] = "BertLoader"

    def has_segments(self, config: Config) -> bool:
        return int(config.get("type_vocab_size", 2)) > 1

    def completed(self, config: Config, weights: Iterable[str]) -> Config:
        """If config.json names both heads and the weights lack that for next sentences, only the other one is used."""
        if not self.predicts_next_sentence(config) or any(NEXT_SENTENCE in name for name in weights):
            return config
        return {**config, "architectures": [self.transformers_class]}

    def new_config(self, settings: Any, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        return {
            **self.config_dict(settings, len(encoder), len(decoder)),
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
    next_sentence_class = None
    stack_class, decoder_class = "ElectraModel", "ElectraForCausalLM"
    head, transforming = "generator_predictions", ""
    ctranslate2_encoder = None
    bias_named_twice = False
    has_pooler = False

    def config_dict(self, settings: Any, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        return {**super().config_dict(settings, encoder_size, decoder_size), "embedding_size": settings.width_of_rows}

    def check_token_head(self, config: Config) -> None:
        if config.get("architectures") == ["ElectraForPreTraining"]:
            raise UserError(
                "this is an ELECTRA discriminator, which has no head that predicts tokens",
                hint="Give the generator that was pretrained with it (electra-small-generator for "
                "electra-small-discriminator), or finetune it on labels with systems that train no generator. "
                f"{ITS_VOCABULARY}",
            )


class Roberta(EncoderOnly):
    """RoBERTa (Liu et al., 2019): a BERT with GPT-2's kind of vocabulary, and without segments."""

    model_type = "roberta"
    transformers_class = "RobertaForMaskedLM"
    objectives = RobertaSettings.objectives
    stack_class, decoder_class = "RobertaModel", "RobertaForCausalLM"
    head = "lm_head"
    positions_after_padding = True
    ctranslate2_encoder = "RobertaLoader"

    def config_dict(self, settings: RobertaSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        """Positions are counted from after the padding id, 1."""
        sizes = super().config_dict(settings, encoder_size, decoder_size)
        return {**sizes, self.positions_key: settings.max_positions + 2, "type_vocab_size": 1}

    def new_config(self, settings: RobertaSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        """Raises UserError for a vocabulary that pads with another id than 1, and has other positions."""
        ids = {role: decoder.special.get(role) for role in ("pad", "bos", "eos")}
        if ids["pad"] != 1:
            raise UserError(
                f"a RoBERTa counts positions from the padding id 1, and this vocabulary's is {ids['pad']}",
                hint="Learn one here (upstream.vocabulary), or take model.family bert.",
            )
        return {
            **self.config_dict(settings, len(encoder), len(decoder)),
            "hidden_dropout_prob": settings.dropout,
            "attention_probs_dropout_prob": settings.attention_dropout,
            "layer_norm_eps": 1e-5,
            **{f"{role}_token_id": token for role, token in ids.items()},
        }

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        from torch.nn.functional import gelu

        return lambda states: head.layer_norm(gelu(head.dense(states)))


class XLMRoberta(Roberta):
    """XLM-RoBERTa (Conneau et al., ACL 2020): a RoBERTa with a SentencePiece vocabulary."""

    model_type = "xlm-roberta"
    transformers_class = "XLMRobertaForMaskedLM"
    stack_class, decoder_class = "XLMRobertaModel", "XLMRobertaForCausalLM"


class DistilBert(EncoderOnly):
    """DistilBERT (Sanh et al., 2019): half of BERT's layers, no segments, other names for sizes and modules.

    transformers has no decoder of this kind, so it cannot be part of an encoder-decoder.
    """

    model_type = "distilbert"
    transformers_class = "DistilBertForMaskedLM"
    head = ""
    head_dropout_keys = ("seq_classif_dropout", "qa_dropout")
    ctranslate2_encoder = "DistilBertLoader"
    bias_named_twice = False
    width_key, inner_width_key, layers_key, heads_key = "dim", "hidden_dim", "n_layers", "n_heads"
    attention, feed_forward = ("q_lin", "k_lin", "v_lin", "out_lin"), ("lin1", "lin2")

    def check_segments(self, config: Config) -> None:
        """It has no segments."""

    def stack_parameters(self, config: Config, layer: Callable[[int, int], int]) -> int:
        width = self.width(config)
        embeddings = config[self.positions_key] * width + parameter_counts.norm(width)
        return int(embeddings + config[self.layers_key] * layer(width, self.inner_width(config)))

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        return lambda states: head.vocab_layer_norm(head.activation(head.vocab_transform(states)))


class ModernBert(EncoderOnly):
    """ModernBERT (Warner et al., 2024): rotary positions, gated layers, attention within a window in most layers.

    transformers' decoder of this kind has no cross-attention, so it cannot be part of an encoder-decoder.
    """

    model_type = "modernbert"
    transformers_class = "ModernBertForMaskedLM"
    head = "head"
    retained_head = ("head.",)
    bias_named_twice = False

    def check_segments(self, config: Config) -> None:
        """It has no segments."""

    def stack_parameters(self, config: Config, layer: Callable[[int, int], int]) -> int:
        """The first layer has no norm before its attention, because a norm follows the embeddings."""
        attention, inner = bool(config.get("attention_bias")), bool(config.get("mlp_bias"))
        projections = self.stack_projections(config)
        maps = parameter_counts.maps(projections, lambda name: inner if name.startswith("mlp") else attention)
        return maps + (2 * int(config[self.layers_key]) + 1) * self._norm(config)

    def head_parameters(self, config: Config) -> int:
        width = self.width(config)
        return parameter_counts.linear(width, width, bool(config.get("classifier_bias"))) + self._norm(config)

    def classifier_parameters(self, config: Config, head: Head) -> int:
        """Every kind has the transform of the head that predicts tokens."""
        return self.head_parameters(config) + parameter_counts.linear(self.width(config), len(head.labels))

    def _norm(self, config: Config) -> int:
        return (2 if config.get("norm_bias") else 1) * self.width(config)

    def stack_projections(self, config: Config, attentions: int = 1) -> list[Projection]:
        """One linear map computes queries, keys and values, another the gate and the inner states."""
        width, inner, layers = self.width(config), self.inner_width(config), int(config[self.layers_key])
        return [
            Projection("attn.Wqkv", width, 3 * width, layers * attentions),
            Projection("attn.Wo", width, width, layers * attentions),
            Projection("mlp.Wi", width, 2 * inner, layers),
            Projection("mlp.Wo", inner, width, layers),
        ]
