# mypy: allow-untyped-calls
"""XLNet (Yang et al., NeurIPS 2019): Transformer-XL's relative attention, with a content and a query stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.contrib.xlnet.settings import XLNetSettings
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.encoder_only import EncoderOnly
from subgraft.modeling.families.family import ITS_VOCABULARY, states_at
from subgraft.modeling.families.input_layout import InputLayout
from subgraft.modeling.families.model_parts import Config, Projection
from subgraft.modeling.families.sequence_format import SequenceFormat, required_token

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

    from subgraft.config.corpora import Languages
    from subgraft.subwords.vocabulary.tokenizer import Tokenizer


class XLNet(EncoderOnly):
    """It reads A <sep> <cls>, or A <sep> B <sep> <cls>; a head for whole texts reads the state of <cls>, the last.

    In vocabularies without these tokens the end and the beginning of a text take their place. Positions are relative,
    so there is no limit. transformers has no decoder with such layers, so no encoder-decoder is made of it.
    """

    model_type = "xlnet"
    transformers_class = "XLNetLMHeadModel"
    auto_class = "AutoModelForCausalLM"
    objectives = XLNetSettings.objectives
    head = ""
    bias_named_twice = False
    pads_left = True
    head_dropout_keys = ("summary_last_dropout",)
    width_key, inner_width_key, layers_key, heads_key = "d_model", "d_inner", "n_layer", "n_head"

    def check(self, config: Config) -> None:
        """Raises UserError for Transformer-XL's attention to the left alone, and for rows that are read backwards."""
        if config.get("attn_type", "bi") != "bi" or config.get("bi_data"):
            what = "this xlnet model has attn_type uni or bi_data, which are not supported"
            raise UserError(what, hint=f"Give one with attn_type bi, and without bi_data. {ITS_VOCABULARY}")

    def has_segments(self, config: Config) -> bool:
        return True

    def config_dict(self, settings: XLNetSettings, encoder_size: int, decoder_size: int) -> dict[str, Any]:
        sizes = super().config_dict(settings, encoder_size, decoder_size)
        del sizes[self.positions_key]
        return sizes

    def new_config(self, settings: XLNetSettings, encoder: Tokenizer, decoder: Tokenizer) -> dict[str, Any]:
        return {
            **self.config_dict(settings, len(encoder), len(decoder)),
            "dropout": settings.dropout,
            "mem_len": None,
            "use_mems_eval": False,
            "pad_token_id": decoder.special["pad"],
            "bos_token_id": decoder.special["bos"],
            "eos_token_id": decoder.special["eos"],
        }

    def stack_parameters(self, config: Config, layer: Callable[[int, int], int]) -> int:
        """The query's embedding; and of each layer five maps without bias, three biases and the two of segments."""
        width, inner = self.width(config), self.inner_width(config)
        attention = 5 * width * width + 5 * width
        own = attention + parameter_counts.feed_forward(width, inner) + 2 * parameter_counts.norm(width)
        return int(width + config[self.layers_key] * own)

    def head_parameters(self, config: Config) -> int:
        return 0

    def stack_projections(self, config: Config, attentions: int = 1) -> list[Projection]:
        """Those of the feed-forward layers: transformers keeps the attention's maps as bare tensors."""
        width, inner, layers = self.width(config), self.inner_width(config), int(config[self.layers_key])
        return [Projection("ff.layer_1", width, inner, layers), Projection("ff.layer_2", inner, width, layers)]

    def sequence_format(
        self, config: Config, source: Tokenizer, target: Tokenizer, languages: Languages | None
    ) -> SequenceFormat:
        separator, end = special_ends(source)
        return SequenceFormat((separator, end), (special_ends(target)[0],), special_ends(target)[1])

    def input_layout(self, config: Config, tokenizer: Tokenizer, languages: Languages | None) -> InputLayout:
        layout = super().input_layout(config, tokenizer, languages)
        return replace(layout, separator=layout.end[:1], last_segment=True)

    def transform(self, model: PreTrainedModel) -> Callable[[Tensor], Tensor] | None:
        return None

    def stack_states(self, model: nn.Module, *, layer: int | None = None, **inputs: Any) -> Tensor:
        stack: Any = model.base_model
        return states_at(stack(**inputs, use_mems=False, output_hidden_states=layer is not None), layer)


def special_ends(tokenizer: Tokenizer) -> tuple[int, int]:
    """The ids of <sep> and <cls>, which end every text, or of the tokens in their place.

    Raises UserError if the vocabulary has neither.
    """
    special = tokenizer.special
    separator = special["sep"] if "sep" in special else required_token(tokenizer, "eos", "an XLNet")
    return separator, special["cls"] if "cls" in special else required_token(tokenizer, "bos", "an XLNet")
