# mypy: allow-untyped-calls
"""Captures the attention weights and values that one self-attention computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from subgraft.base.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from subgraft.config.settings_base import SideName

# The names of the linear map that computes values, in BART, Marian, mBART and Llama, in T5, and in BERT.
_VALUES = ("v_proj", "v", "value")
# In the names of modules that attend to the source.
_CROSS = ("encoder_attn", "EncDecAttention", "crossattention")


@dataclass(frozen=True)
class Attended:
    """The result of a self-attention. weights: [B, H, T, T], of each token over all tokens.  values: [B, T, H, d/H]."""

    weights: Tensor
    values: Tensor


class _StopForwardPass(Exception):  # noqa: N818 - no error
    """The layer has been computed, and later ones are not needed."""


class AttentionCapture:
    """Runs passes of a model up to a self-attention and returns what it computes.

    From then on the side computes attention without fused kernels, because these return no weights.

    Args:
        layer: Counted from 1.

    Raises:
        UserError: The family's self-attention has no linear map of values of its own.
    """

    def __init__(self, model: PreTrainedModel, side: SideName, layer: int) -> None:
        stack: Any = model.get_encoder() if side == "encoder" else model.get_decoder()
        stack.set_attn_implementation("eager")
        attentions = [
            (module, values) for name, module in stack.named_modules() if (values := _values_of(name, module))
        ]
        if len(attentions) < layer:
            raise UserError(f"no layer {layer} with values of its own in this {model.config.model_type}'s {side}")
        self._attention, self._values = attentions[layer - 1]
        self._head_size: int | None = getattr(self._attention, "head_dim", None)
        config: Any = getattr(self._attention, "config", stack.config)  # an assembled model's stack may have a copy
        config._attn_implementation = "eager"

    def __call__(self, run: Callable[[], object]) -> Attended:
        """The weights and values of the self-attention in the pass that `run` starts; layers after it are not run."""
        seen: dict[str, Tensor] = {}

        def keep_values(module: nn.Module, inputs: Any, output: Tensor) -> None:
            seen["values"] = output

        def stop(module: nn.Module, inputs: Any, output: tuple[Tensor, ...]) -> None:
            seen["weights"] = output[-1]
            raise _StopForwardPass

        hooks = self._values.register_forward_hook(keep_values), self._attention.register_forward_hook(stop)
        try:
            run()
        except _StopForwardPass:
            pass
        finally:
            for hook in hooks:
                hook.remove()
        weights = seen["weights"]
        values = seen["values"].unflatten(-1, (-1, self._head_size or seen["values"].shape[-1] // weights.shape[1]))
        # Several heads share the values of one, as in Llama 3.
        return Attended(weights, values.repeat_interleave(weights.shape[1] // values.shape[2], dim=2))


def _values_of(name: str, module: nn.Module) -> nn.Module | None:
    """The linear map of values of a self-attention; None for other modules."""
    if any(cross in name for cross in _CROSS):
        return None
    return next((child for child_name, child in module.named_children() if child_name in _VALUES), None)
