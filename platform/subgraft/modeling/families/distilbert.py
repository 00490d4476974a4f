"""DistilBERT (Sanh et al., 2019): half of BERT's layers, no segments, names of its own for sizes and modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.encoder_only import EncoderOnly
from subgraft.modeling.families.model_parts import Config, Projection

if TYPE_CHECKING:
    from torch import Tensor


class DistilBert(EncoderOnly):
    """Taken from checkpoints only. transformers has no decoder of this kind, so no encoder-decoder is made of it."""

    model_type = "distilbert"
    transformers_class = "DistilBertForMaskedLM"
    head = ""
    bias_named_twice = False
    width_key, inner_width_key, layers_key, heads_key = "dim", "hidden_dim", "n_layers", "n_heads"

    def check_segments(self, config: Config) -> None:
        """It has no segments."""

    def stack_parameters(self, config: Config, layer: Callable[[int, int], int]) -> int:
        width = self.width(config)
        embeddings = config[self.positions_key] * width + parameter_counts.norm(width)
        return int(embeddings + config[self.layers_key] * layer(width, self.inner_width(config)))

    def stack_projections(self, config: Config, attentions: int = 1) -> list[Projection]:
        attention, inner = ("q_lin", "k_lin", "v_lin", "out_lin"), ("lin1", "lin2")
        sizes = self.width(config), self.inner_width(config), config[self.layers_key]
        return parameter_counts.projections(attention, inner, *sizes, attentions)

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        return lambda states: head.vocab_layer_norm(head.activation(head.vocab_transform(states)))
