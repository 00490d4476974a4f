# mypy: allow-untyped-calls
"""T5 (Raffel et al., JMLR 2020), its version 1.1, whose output projection is a table of its own, and mT5 like that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from subgraft.config.models import T5Settings
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.family import Family, separate_tables_error
from subgraft.modeling.families.heads import Head, is_headed
from subgraft.modeling.families.model_parts import Config, Parameters, Projection, Tables, TableSize
from subgraft.modeling.families.sequence_format import (
    SequenceFormat,
    required_token,
    start_role,
    target_language_prefix,
)

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.config.settings_base import SideName
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class T5(Family):
    """Encoder and decoder share embeddings; positions are relative, so length is unlimited; there are no biases."""

    model_type = "t5"
    transformers_class = "T5ForConditionalGeneration"
    ctranslate2_loader = "T5Loader"
    width_key, inner_width_key, layers_key = "d_model", "d_ff", "num_layers"
    heads_key, positions_key = "num_heads", "n_positions"
    objectives = T5Settings.objectives
    one_table = True

    def position_limit(self, config: Config) -> int | None:
        """None: `n_positions` is only the length of the pretraining texts."""
        return None

    def is_tied(self, config: Config) -> bool:
        """Whether the output projection is tied and reads scaled states (version 1.0) or neither (version 1.1).

        Published files encode this in `tie_word_embeddings`; transformers turns it into `scale_decoder_outputs`.
        """
        return bool(config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True)))

    def layers(self, config: Config, side: SideName) -> int:
        own = config.get("num_decoder_layers") if side == "decoder" else None
        return int(config["num_layers"] if own is None else own)

    def weight_scale(self, config: Config) -> float:
        """Embeddings are drawn from N(0, 1)."""
        return float(config.get("initializer_factor", 1.0))

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        """Raises UserError for separate vocabularies."""
        if len(sizes) == 1 or len(set(sizes.values())) > 1:
            raise separate_tables_error(self.model_type)
        # Any valid ids do; transformers cannot construct a padding id beyond a smaller vocabulary.
        ids = {"pad_token_id": 0, "decoder_start_token_id": 0}
        return {**config, "vocab_size": sizes.get("decoder", config["vocab_size"]), **ids}

    def body_parameters(self, config: Config) -> Parameters:
        """Norms have a gain only; the positions of a stack are a bias for each head and bucket of distances."""
        maps = parameter_counts.maps(self.projections(config), lambda _: False)
        norms = 2 * self.layers(config, "encoder") + 3 * self.layers(config, "decoder") + 2
        positions = 2 * config.get("relative_attention_num_buckets", 32) * config["num_heads"]
        total = maps + norms * self.width(config) + positions
        return Parameters(total, total)

    def headed_body_parameters(self, config: Config, head: Head) -> Parameters:
        """A model that tags tokens is an encoder alone."""
        if head.kind != "tokens":
            return super().headed_body_parameters(config, head)
        positions = config.get("relative_attention_num_buckets", 32) * config["num_heads"] + self.width(config)
        total = self.body_parameters({**config, "num_decoder_layers": 0}).total - positions
        total += self.classifier_parameters(config, head)
        return Parameters(total, total)

    def table_sizes(self, config: Config) -> list[TableSize]:
        numbers = config["vocab_size"] * self.width(config)
        own = [] if self.is_tied(config) else [TableSize(frozenset({"decoder"}), numbers)]
        return [TableSize(frozenset(self.sides), numbers), *own]

    def projections(self, config: Config) -> list[Projection]:
        width, inner, heads = self.width(config), self.inner_width(config), config["num_heads"] * config["d_kv"]
        encoder, decoder = self.layers(config, "encoder"), self.layers(config, "decoder")
        attentions, layers = encoder + 2 * decoder, encoder + decoder
        gated = str(config.get("feed_forward_proj", "relu")).startswith("gated")
        sizes = {"q": (width, heads), "k": (width, heads), "v": (width, heads), "o": (heads, width)}
        maps = [Projection(name, *size, attentions) for name, size in sizes.items()]
        maps += [Projection(name, width, inner, layers) for name in (("wi_0", "wi_1") if gated else ("wi",))]
        return [*maps, Projection("wo", inner, width, layers)]

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        """text </s>; decoding starts with padding (MADLAD-400: with the unknown token).

        A prefix that names the task is part of the text. If the vocabulary has codes of target languages (<2fr>), as
        MADLAD-400's does, a source begins with one.
        """
        ends = (required_token(source, "eos", "a T5"),), (required_token(target, "eos", "a T5"),)
        start = required_token(target, start_role(config, "pad", another="unk"), "a T5")
        return SequenceFormat(*ends, start, target_language_prefix(source, languages, "<2"))

    def config_dict(self, settings: T5Settings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        return {
            "model_type": self.model_type,
            "vocab_size": decoder_size,
            "d_model": settings.d_model,
            "d_kv": settings.d_model // settings.attention_heads,
            "d_ff": settings.ffn_dim,
            "num_layers": settings.encoder_layers,
            "num_decoder_layers": settings.decoder_layers,
            "num_heads": settings.attention_heads,
            "n_positions": settings.max_positions,
            "feed_forward_proj": "gated-gelu" if settings.gated else "relu",
            "tie_word_embeddings": settings.tied,
        }

    def build(self, settings: T5Settings, encoder: Tokenizer, decoder: Tokenizer, seed: int) -> PreTrainedModel:
        """An untied projection is initialised from the scaled embeddings, so that it computes what a tied one does."""
        from torch import no_grad

        model = super().build(settings, encoder, decoder, seed)
        if not settings.tied:
            output: Any = model.get_output_embeddings()
            with no_grad():
                output.weight.mul_(settings.d_model**-0.5)
        # Without a limit of its own, generate stops after 20 tokens.
        model.generation_config.max_length = settings.max_positions
        return model

    def new_config(self, settings: T5Settings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        return {
            **self.config_dict(settings, len(decoder), len(decoder)),
            "dropout_rate": settings.dropout,
            "pad_token_id": decoder.special["pad"],
            "eos_token_id": decoder.special["eos"],
            "decoder_start_token_id": decoder.special["pad"],
        }

    def post_init(self, model: PreTrainedModel) -> None:
        """Untie the projection of version 1.1: transformers constructs every T5 tied.

        (It also ties a loaded model again whose embeddings and projection happen to be equal.)
        """
        from torch import nn

        if is_headed(model) or self.is_tied(model.config.to_dict()):
            return
        model.config.tie_word_embeddings = False
        model.all_tied_weights_keys.pop("lm_head.weight", None)
        output: Any = model.get_output_embeddings()
        if output.weight is self.input_table(model, "decoder").weight:
            output.weight = nn.Parameter(output.weight.detach().clone())

    def ctranslate2_settings(self, config: Config) -> Mapping[str, Any]:
        return {"tie_word_embeddings": self.is_tied(config)}

    def input_table(self, model: PreTrainedModel, name: SideName) -> nn.Embedding:
        module: Any = model.get_input_embeddings() if is_headed(model) else getattr(model, name).embed_tokens
        table: nn.Embedding = module
        return table

    def transform(self, model: PreTrainedModel) -> Callable[[Tensor], Tensor] | None:
        """States are scaled by d^-½ before a tied projection."""
        from torch import mul

        return partial(mul, other=model.config.d_model**-0.5) if self.is_tied(model.config.to_dict()) else None

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        """Raises UserError for separate embeddings of the two sides."""
        from subgraft.modeling.families.table_replacement import replace_tensors

        if len(tables) != 2 or tables["encoder"].input is not tables["decoder"].input:
            raise separate_tables_error(self.model_type)
        replace_tensors(self, model, "decoder", tables["decoder"])
        table = self.input_table(model, "decoder")
        others: tuple[Any, ...] = (self.input_table(model, "encoder"), model.get_input_embeddings())
        for other in others:
            other.weight, other.num_embeddings = table.weight, table.num_embeddings
        return model


class MT5(T5):
    """mT5 (Xue et al., NAACL 2021): version 1.1 with its own model type, always untied."""

    model_type = "mt5"
    transformers_class = "MT5ForConditionalGeneration"

    def is_tied(self, config: Config) -> bool:
        return False
