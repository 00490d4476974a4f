"""A finetuned mBART with an encoder that attends to previous sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.mbart import MBart
from subgraft.modeling.families.model_parts import Config, Parameters, Tables

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from subgraft.config.settings_base import SideName


class ContextMBart(MBart):
    """A finetuned mBART with an encoder that attends to previous sentences. Its class is in `context_mbart.py`."""

    model_type = "context_mbart"
    ctranslate2_loader = None
    lends_encoder = False
    takes_context = False

    def model_class(self) -> type[PreTrainedModel]:
        from subgraft.contrib.context.context_mbart import ContextMBartForConditionalGeneration

        return ContextMBartForConditionalGeneration

    def body_parameters(self, config: Config) -> Parameters:
        """Two queries, two attentions, a feed-forward layer, two norms, and a gate of two maps with one bias."""
        width, body = self.width(config), super().body_parameters(config).total
        body += 3 * parameter_counts.linear(width, width) + parameter_counts.linear(width, width, bias=False)
        body += 2 * parameter_counts.attention(width) + 2 * parameter_counts.norm(width)
        body += parameter_counts.feed_forward(width, config["encoder_ffn_dim"])
        return Parameters(body, body)

    def with_vocabularies(self, config: Config, sizes: Mapping[SideName, int]) -> dict[str, Any]:
        raise UserError(_MADE_OF_FINETUNED)

    def replace_tables(self, model: PreTrainedModel, tables: Mapping[SideName, Tables]) -> PreTrainedModel:
        raise UserError(_MADE_OF_FINETUNED)

    def for_transformers(self, model: PreTrainedModel) -> PreTrainedModel:
        raise UserError(
            "an export would not load: transformers has no class for a model that reads sentences before",
            hint="`subgraft generate --documents` translates with it.",
        )


# The weights of such a model are made for the vocabulary that it reads.
_MADE_OF_FINETUNED = (
    "a model with context cannot be built: it is made of a finetuned mBART, which gets its vocabulary first"
)
