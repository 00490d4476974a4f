# mypy: allow-untyped-calls
"""Marian: a translation Transformer with a vocabulary per side (Junczys-Dowmunt et al., 2018; OPUS-MT)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.config.models import MarianSettings
from subgraft.modeling.families.bart_like import BartLike
from subgraft.modeling.families.model_parts import Config, Parameters, Side
from subgraft.modeling.families.sequence_format import (
    SequenceFormat,
    required_token,
    start_role,
    target_language_prefix,
)

if TYPE_CHECKING:
    from pathlib import Path

    from torch import nn
    from transformers import PreTrainedConfig

    from subgraft.config.corpora import Languages
    from subgraft.config.model_shapes import TwoStackSettings
    from subgraft.config.settings_base import SideName
    from subgraft.modeling.families.bart_like import ClassAndConfig
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class Marian(BartLike):
    """Published models may share one embedding matrix; models that are built here never do."""

    model_type = "marian"
    transformers_class = "MarianMTModel"
    ctranslate2_loader = "BartLoader"
    objectives = MarianSettings.objectives
    sinusoids = "MarianSinusoidalPositionalEmbedding"
    separate_config: ClassVar[Mapping[str, Any]] = {"share_encoder_decoder_embeddings": False}

    def has_shared_table(self, config: Config) -> bool:
        return bool(config.get("share_encoder_decoder_embeddings", True))

    def body_parameters(self, config: Config) -> Parameters:
        """Positions are sinusoids that are stored as weights but not trained."""
        width = self.width(config)
        trained = self.layer_parameters(config)
        return Parameters(trained + 2 * config["max_position_embeddings"] * width, trained)

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """text </s>; decoding starts with padding unless the configuration names another role.

        If the source vocabulary has codes of target languages (>>fra<<), a source begins with one of them.
        """
        ends = (required_token(source, "eos", "a Marian"),), (required_token(target, "eos", "a Marian"),)
        start = required_token(target, start_role(config, "pad"), "a Marian")
        return SequenceFormat(*ends, start, target_language_prefix(source, languages, ">>"))

    def config_dict(self, settings: TwoStackSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        sizes = {"vocab_size": encoder_size, "decoder_vocab_size": decoder_size}
        return {**super().config_dict(settings, encoder_size, decoder_size), **sizes, **self.separate_config}

    def new_config(self, settings: TwoStackSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        """A translation Transformer (Vaswani et al., 2017) with Marian's architecture and tied output projection.

        Weights are drawn from N(0, 1/d_model), so that scaled embeddings have unit variance.
        """
        return {
            **super().new_config(settings, encoder, decoder),
            "activation_function": "relu",
            "init_std": settings.d_model**-0.5,
            "encoder_pad_token_id": encoder.special["pad"],
            "decoder_start_token_id": decoder.special["pad"],
        }

    def published_tokenizers(self, directory: Path) -> dict[SideName, Tokenizer] | None:
        from subgraft.modeling.families import marian_layout

        return marian_layout.load(directory) if marian_layout.is_published(directory) else None

    def published_numbering(self, encoder: Tokenizer, decoder: Tokenizer) -> Mapping[SideName, Sequence[int]]:
        from subgraft.modeling.families import marian_layout

        return marian_layout.orders(encoder, decoder)

    def input_scale(self, model: nn.Module, side: Side) -> float:
        """The decoder scales ids and `inputs_embeds`, the encoder scales ids only."""
        scale: Any = model.get_encoder().embed_scale if side.name == "encoder" else 1.0  # type: ignore[operator]
        return float(scale)

    def save_published_tokenizers(
        self, encoder: Tokenizer, decoder: Tokenizer, directory: Path, settings: Mapping[str, Any]
    ) -> bool:
        from subgraft.modeling.families import marian_layout

        return marian_layout.save(encoder, decoder, directory, settings)

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        return {"normalize_before": False, "normalize_embedding": False}

    def _rebuild_config(self, config: PreTrainedConfig, settings: dict[str, Any], shared: bool) -> ClassAndConfig:
        return self.model_class(), type(config)(**{**settings, "share_encoder_decoder_embeddings": shared})
