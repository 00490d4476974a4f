# mypy: allow-untyped-calls
"""XLNet's two streams of states (Yang et al., NeurIPS 2019, section 2.3, equations 12–16), computed by transformers.

A hook before each layer adds two features that XLNetModel lacks: a memory that only some rows have, and rows that are
read backwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

# The rank of a position that is context.
CONTEXT = -1


class Memory(NamedTuple):
    """States of earlier blocks, without gradient.

    states: the states that each layer reads [L, m, B, d]; the last ones are next to the block.  absent: the states that
    a row lacks, bool [B, m].
    """

    states: Tensor
    absent: Tensor


class Streams(NamedTuple):
    """States of both streams.

    content: the states of tokens, which have seen their own token [B, T, d].  query: the states of targets, which have
    not [B, M, d].  below: the states of the content stream that each layer reads [L, B, T, d].
    """

    content: Tensor
    query: Tensor
    below: Tensor


def permutation_mask(ranks: Tensor) -> Tensor:
    """Whether position i must not see position j, bool [B, i, j].

    ranks: the position of each token in the order of prediction, or CONTEXT [B, T]. A target sees the context and
    earlier targets; the context sees only itself.
    """
    seen_by = ranks[:, :, None]
    target = ranks[:, None, :]
    return (target != CONTEXT) & (target >= seen_by)


def target_mapping(targets: Tensor, counted: Tensor, length: int) -> Tensor:
    """Which position each query predicts, bool [B, M, T]. targets: [B, M]; counted: bool [B, M], the real ones."""
    return nn.functional.one_hot(targets, length).bool() & counted[..., None]


def two_streams(
    model: Any,
    inputs: Mapping[str, Tensor],
    *,
    attention_mask: Tensor,
    token_type_ids: Tensor,
    ranks: Tensor,
    targets: Tensor,
    counted: Tensor,
    backwards: Tensor,
    memory: Memory | None = None,
) -> Streams:
    """Both streams of a batch.

    Args:
        model: An XLNetModel.
        inputs: `input_ids` [B, T] or `inputs_embeds`.
        attention_mask: 1 for tokens [B, T].
        token_type_ids: Segments [B, T].
        ranks: See `permutation_mask`.
        targets: Positions to predict [B, M].
        counted: Which of them are real [B, M].
        backwards: Which rows are in reversed order [B]: their relative positions have the other sign.
        memory: Of earlier blocks.
    """
    with _adjusted_layers(model, backwards, memory):
        outputs = model(
            **inputs,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            perm_mask=permutation_mask(ranks).to(model.dtype),
            target_mapping=target_mapping(targets, counted, ranks.shape[1]).to(model.dtype),
            mems=None if memory is None else list(memory.states.unbind()),
            use_mems=False,
            output_hidden_states=True,
        )
    contents = outputs.hidden_states[::2]
    return Streams(contents[-1], outputs.last_hidden_state, torch.stack([each.detach() for each in contents[:-1]]))


def content_stream(model: Any, inputs: Mapping[str, Tensor], attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
    """States [B, T, d] if every position sees all others."""
    states: Tensor = model(
        **inputs, attention_mask=attention_mask, token_type_ids=token_type_ids, use_mems=False
    ).last_hidden_state
    return states


@contextmanager
def _adjusted_layers(model: Any, backwards: Tensor, memory: Memory | None) -> Iterator[None]:
    """In this context, layers mask memory that a row lacks, and read some rows backwards.

    A relative position is encoded by the sines of a distance, followed by its cosines. For the opposite distance, the
    sines change sign.
    """
    sign = torch.ones(1, len(backwards), model.d_model, dtype=model.dtype, device=backwards.device)
    sign[:, :, : model.d_model // 2] -= 2 * backwards.to(model.dtype)[None, :, None]

    def adjust(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        kwargs["r"] = kwargs["r"] * sign
        if memory is not None:
            for name in ("attn_mask_h", "attn_mask_g"):
                kwargs[name] = _hide_absent(kwargs[name], memory.absent)
        return args, kwargs

    hooks = [layer.register_forward_pre_hook(adjust, with_kwargs=True) for layer in model.layer]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _hide_absent(mask: Tensor, absent: Tensor) -> Tensor:
    """The attention mask [T, m + T, B, 1], which also hides absent memory."""
    size = absent.shape[1]
    hidden = absent.T.to(mask.dtype)[None, :, :, None].expand(mask.shape[0], -1, -1, -1)
    return torch.cat([torch.maximum(mask[:, :size], hidden), mask[:, size:]], dim=1)
