# mypy: allow-untyped-calls
"""BART (Lewis et al., ACL 2020): one byte-level vocabulary, as GPT-2's, of one language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.bart_like import OneTable, new_config, shape
from subgraft.modeling.families.model_parts import Config, Parameters
from subgraft.modeling.families.sequence_format import SequenceFormat, needed, start_role

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.models import BartSettings
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class Bart(OneTable):
    """Encoder, decoder and output projection share one embedding matrix."""

    model_type = "bart"
    transformers_class = "BartForConditionalGeneration"
    ctranslate2_loader = "BartLoader"
    objectives = frozenset({"translation", "denoising", "masked-seq2seq"})
    called = "a BART"

    def body_parameters(self, config: Config) -> Parameters:
        """Each stack has learned positions and a layer norm after its embeddings."""
        width = self.width(config)
        positions = parameter_counts.padded_positions(config["max_position_embeddings"], width)
        total = self.layer_parameters(config) + 2 * (positions + parameter_counts.norm(width))
        return Parameters(total, total)

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """<s> text </s>; the decoder starts with </s> and predicts <s>."""
        begins = needed(source, "bos", "a BART"), needed(target, "bos", "a BART")
        ends = needed(source, "eos", "a BART"), needed(target, "eos", "a BART")
        start = needed(target, start_role(config, "eos"), "a BART")
        return SequenceFormat((ends[0],), (ends[1],), start, (begins[0],), begins[1])

    def separator(self, ending: tuple[int, ...]) -> tuple[int, ...]:
        """</s></s>, as in RoBERTa."""
        return ending * 2

    def described(self, settings: BartSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        # Ids within the smallest possible vocabulary: a padding row must exist.
        ids = {"pad_token_id": 0, "decoder_start_token_id": 0}
        return {"model_type": self.model_type, **shape(settings), "vocab_size": decoder_size, **ids}

    def new_config(self, settings: BartSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        """As in published models, embeddings are not scaled."""
        return {
            **new_config(settings, decoder),
            "vocab_size": len(decoder),
            "scale_embedding": False,
            "decoder_start_token_id": decoder.special["eos"],
        }

    def build(self, settings: BartSettings, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        """Every output begins with <s>, as in training."""
        model = super().build(settings, encoder, decoder, seed)
        generation: Any = model.generation_config
        generation.forced_bos_token_id = decoder.special["bos"]
        return model

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        """Layers are normalised after each part, which files of this family do not always say."""
        return {"normalize_before": False, "normalize_embedding": True}


class Pegasus(OneTable):
    """Taken from checkpoints only. Encoder, decoder and output projection share one embedding matrix."""

    model_type = "pegasus"
    transformers_class = "PegasusForConditionalGeneration"
    ctranslate2_loader = "PegasusLoader"
    objectives = frozenset({"translation"})
    called = "a PEGASUS"
    sinusoids = "PegasusSinusoidalPositionalEmbedding"

    def body_parameters(self, config: Config) -> Parameters:
        """Pre-norm layers, one more norm at the top of each stack, and sinusoids that are stored but not trained."""
        width = self.width(config)
        trained = self.layer_parameters(config) + 2 * parameter_counts.norm(width)
        return Parameters(trained + 2 * config["max_position_embeddings"] * width, trained)

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """text </s>; decoding starts with padding."""
        ends = (needed(source, "eos", "a PEGASUS"),), (needed(target, "eos", "a PEGASUS"),)
        return SequenceFormat(*ends, needed(target, start_role(config, "pad"), "a PEGASUS"))

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        """Layers are normalised before each part, embeddings are not, which configurations do not always say."""
        return {"normalize_before": True, "normalize_embedding": False}
