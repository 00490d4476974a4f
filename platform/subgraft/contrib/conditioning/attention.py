"""A new attention to the source in each layer of the language model (Ziegler et al., 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.modeling.conditioning.variants.variant import Memory, PartCounts, Variant, target_mask

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import EncoderDecoderCache, PreTrainedConfig, PreTrainedModel


class CrossAttention(Variant):
    """In every layer, new cross-attention to the source after self-attention.

    It is transformers' own, with a separate norm before the queries. Its weights are in the language model.
    """

    name = "cross-attention"
    in_layers = True

    def parameters(self, count: PartCounts) -> int:
        return count.layers * (count.attention + count.norm)

    def prepare(self, config: PreTrainedConfig) -> None:
        if not hasattr(config, "add_cross_attention"):
            raise UserError(
                f"a {config.model_type} model does not support attention to a source",
                hint="Use pseudo-self, prepend, simple-fusion or representation, or a GPT-2.",
            )
        config.add_cross_attention = True

    def prepare_modules(self, language_model: PreTrainedModel) -> None:
        for block in blocks(language_model):
            block.crossattention.register_forward_hook(_masked_source_adds_nothing, with_kwargs=True)

    def states(
        self,
        parts: Any,
        language_model: PreTrainedModel,
        memory: Memory,
        cache: EncoderDecoderCache | None,
        **inputs: Tensor,
    ) -> Tensor:
        top: Tensor = language_model.base_model(
            encoder_hidden_states=memory.states,
            encoder_attention_mask=memory.mask,
            attention_mask=target_mask(cache, inputs),
            past_key_values=cache,
            use_cache=cache is not None,
            **inputs,
        ).last_hidden_state
        return top


class ContextAttention(CrossAttention):
    """The paper's arrangement: the norm before the feed-forward part, ln_2, also precedes the queries."""

    name = "context-attention"

    def parameters(self, count: PartCounts) -> int:
        return count.layers * count.attention

    def prepare_modules(self, language_model: PreTrainedModel) -> None:
        super().prepare_modules(language_model)
        for block in blocks(language_model):
            del block.ln_cross_attn
            # Not registered as a module, so that its weights exist, and are saved, once.
            object.__setattr__(block, "ln_cross_attn", block.ln_2)


class FromScratch(CrossAttention):
    """`none`: the same Transformer decoder without pretrained weights (Vaswani et al., 2017)."""

    name = "none"
    pretrained = False


def blocks(language_model: nn.Module) -> Iterator[Any]:
    """The layers that attend to a source."""
    return (module for module in language_model.modules() if hasattr(module, "crossattention"))


def _masked_source_adds_nothing(module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
    """A completely masked source adds nothing: no bias, and no mean of masked states."""
    mask: Tensor | None = kwargs.get("encoder_attention_mask")
    if mask is None:  # nothing is masked
        return output
    visible = mask if not mask.is_floating_point() else mask == 0
    added, weights = output
    return added.where(visible.any(-1)[:, 0, :, None], added.new_zeros(())), weights
