# mypy: allow-untyped-calls
"""BART (Lewis et al., ACL 2020): one byte-level vocabulary, as GPT-2's, of one language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from subgraft.base.errors import UserError
from subgraft.config.models import BartSettings
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.bart_like import OneTable
from subgraft.modeling.families.model_parts import Config, Parameters, Projection, Tables, TableSize
from subgraft.modeling.families.sequence_format import SequenceFormat, required_token, start_role

if TYPE_CHECKING:
    from torch import nn
    from transformers import PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.model_shapes import TwoStackSettings
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


_FIXED = "a BART with a source encoder cannot change its vocabularies: transfer them to the BART first"


class Bart(OneTable):
    """Encoder, decoder and output projection share one embedding matrix."""

    model_type = "bart"
    transformers_class = "BartForConditionalGeneration"
    ctranslate2_loader: ClassVar[str | None] = "BartLoader"
    objectives = BartSettings.objectives
    display_name = "a BART"

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
        begins = required_token(source, "bos", "a BART"), required_token(target, "bos", "a BART")
        ends = required_token(source, "eos", "a BART"), required_token(target, "eos", "a BART")
        start = required_token(target, start_role(config, "eos"), "a BART")
        return SequenceFormat((ends[0],), (ends[1],), start, (begins[0],), begins[1])

    def separator(self, ending: tuple[int, ...]) -> tuple[int, ...]:
        """</s></s>, as in RoBERTa."""
        return ending * 2

    def new_config(self, settings: TwoStackSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        """As in published models, embeddings are not scaled."""
        return {**super().new_config(settings, encoder, decoder), "scale_embedding": False}

    def build(self, settings: BartSettings, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        """Every output begins with <s>, as in training."""
        model = super().build(settings, encoder, decoder, seed)
        generation: Any = model.generation_config
        generation.forced_bos_token_id = decoder.special["bos"]
        return model

    def with_source_encoder(self, config: Config, layers: int, vocabulary: int, padding_id: int = 0) -> dict[str, Any]:
        own = {"source_layers": layers, "source_vocab_size": vocabulary, "source_pad_token_id": padding_id}
        entries = {name: value for name, value in config.items() if name not in ("architectures", "auto_map")}
        return {**entries, "model_type": SourcedBart.model_type, **own}

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        """Layers are normalised after each part, which config.json does not always record."""
        return {"normalize_before": False, "normalize_embedding": True}


class SourcedBart(Bart):
    """A BART in which a new encoder reads the source. Its class in `sourced_bart.py` is saved next to the weights."""

    model_type = "sourced_bart"
    ctranslate2_loader = None
    lends_encoder = False
    one_table = False

    def model_class(self) -> type[PreTrainedModel]:
        from subgraft.modeling.families.sourced_bart import SourcedBartForConditionalGeneration

        return SourcedBartForConditionalGeneration

    def layers(self, config: Config, side: SideName) -> int:
        return super().layers(config, side) + (int(config["source_layers"]) if side == "encoder" else 0)

    def vocabulary_sizes(self, config: Config) -> dict[SideName, int]:
        return {"encoder": config["source_vocab_size"], "decoder": config["vocab_size"]}

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        raise UserError(_FIXED)

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        raise UserError(_FIXED)

    def body_parameters(self, config: Config) -> Parameters:
        """Besides its layers the source encoder has learned positions, and a layer norm after its embeddings."""
        width, body = self.width(config), super().body_parameters(config).total
        body += parameter_counts.padded_positions(config["max_position_embeddings"], width)
        body += parameter_counts.norm(width)
        return Parameters(body, body)

    def table_sizes(self, config: Config) -> list[TableSize]:
        sizes = self.vocabulary_sizes(config).items()
        return [TableSize(frozenset({side}), rows * self.width(config)) for side, rows in sizes]

    def projections(self, config: Config) -> list[Projection]:
        return super().projections({**config, "encoder_layers": self.layers(config, "encoder")})

    def input_table(self, model: PreTrainedModel, name: SideName) -> nn.Embedding:
        encoder: Any = model.model.encoder
        table: nn.Embedding = encoder.source.embed_tokens
        return table if name == "encoder" else super().input_table(model, name)

    def first_step_parameters(self, model: PreTrainedModel) -> list[nn.Parameter]:
        """The source encoder, the positions, and the input projections of the encoder's first self-attention."""
        projections = tuple(f"model.encoder.layers.0.self_attn.{name}_proj." for name in "qkv")
        trained = ("model.encoder.source.", "model.encoder.embed_positions.", "model.decoder.embed_positions.")
        return [each for name, each in model.named_parameters() if name.startswith(trained + projections)]


class Pegasus(OneTable):
    """Taken from checkpoints only. Encoder, decoder and output projection share one embedding matrix."""

    model_type = "pegasus"
    transformers_class = "PegasusForConditionalGeneration"
    ctranslate2_loader = "PegasusLoader"
    objectives = frozenset({"translation"})
    display_name = "a PEGASUS"
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
        ends = (required_token(source, "eos", "a PEGASUS"),), (required_token(target, "eos", "a PEGASUS"),)
        return SequenceFormat(*ends, required_token(target, start_role(config, "pad"), "a PEGASUS"))

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        """Layers are normalised before each part, and embeddings are not, which config.json does not always record."""
        return {"normalize_before": True, "normalize_embedding": False}
