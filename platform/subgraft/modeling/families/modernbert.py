"""ModernBERT (Warner et al., 2024): rotary positions, gated layers, attention within a window in most layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from subgraft.modeling.families import parameter_counts
from subgraft.modeling.families.encoder_only import EncoderOnly
from subgraft.modeling.families.model_parts import Config, Projection

if TYPE_CHECKING:
    from torch import Tensor


class ModernBert(EncoderOnly):
    """Taken from checkpoints only. transformers' decoder of this kind reads no source: no encoder-decoder is made."""

    model_type = "modernbert"
    transformers_class = "ModernBertForMaskedLM"
    head = "head"
    bias_named_twice = False

    def check_segments(self, config: Config) -> None:
        """It has no segments."""

    def stack_parameters(self, config: Config, layer: Callable[[int, int], int]) -> int:
        """The first layer has no norm before its attention, because the embeddings have one behind them."""
        attention, inner = bool(config.get("attention_bias")), bool(config.get("mlp_bias"))
        projections = self.stack_projections(config)
        maps = parameter_counts.maps(projections, lambda name: inner if name.startswith("mlp") else attention)
        return maps + (2 * int(config[self.layers_key]) + 1) * self._norm(config)

    def head_parameters(self, config: Config) -> int:
        width = self.width(config)
        return parameter_counts.linear(width, width, bool(config.get("classifier_bias"))) + self._norm(config)

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

    def head_transform(self, head: Any) -> Callable[[Tensor], Tensor]:
        transform: Callable[[Tensor], Tensor] = head
        return transform
