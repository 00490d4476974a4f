# mypy: allow-untyped-calls
"""XLNet's two streams of states, by transformers' XLNetModel (Yang et al., NeurIPS 2019, section 2.3, equations 12–16).

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

    states: [L, m, B, d], those that each layer reads, next to the block last.  absent: which a row lacks, bool [B, m].
    """

    states: Tensor
    absent: Tensor


class Streams(NamedTuple):
    """States of both streams.

    content: [B, T, d], each of a token that has been seen.  query: [B, M, d], each of a place whose token has not.
    below: the content stream's states that each layer reads [L, B, T, d].
    """

    content: Tensor
    query: Tensor
    below: Tensor


def permutation_mask(ranks: Tensor) -> Tensor:
    """Which position i may not see which j, bool [B, i, j].

    ranks: [B, T], places in the order of prediction. A target sees the context and the targets before it; the context,
    of rank CONTEXT, sees itself only.
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
    with _adjusted(model, backwards, memory):
        made = model(
            **inputs,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            perm_mask=permutation_mask(ranks).to(model.dtype),
            target_mapping=target_mapping(targets, counted, ranks.shape[1]).to(model.dtype),
            mems=None if memory is None else list(memory.states.unbind()),
            use_mems=False,
            output_hidden_states=True,
        )
    contents = made.hidden_states[::2]
    return Streams(contents[-1], made.last_hidden_state, torch.stack([each.detach() for each in contents[:-1]]))


def content_stream(model: Any, inputs: Mapping[str, Tensor], attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
    """States [B, T, d] where every position sees every other."""
    states: Tensor = model(
        **inputs, attention_mask=attention_mask, token_type_ids=token_type_ids, use_mems=False
    ).last_hidden_state
    return states


@contextmanager
def _adjusted(model: Any, backwards: Tensor, memory: Memory | None) -> Iterator[None]:
    """For a while, layers hide memory that a row lacks, and read some rows backwards.

    A relative position is the sines of a distance and then its cosines: of the opposite distance, sines change sign.
    """
    sign = torch.ones(1, len(backwards), model.d_model, dtype=model.dtype, device=backwards.device)
    sign[:, :, : model.d_model // 2] -= 2 * backwards.to(model.dtype)[None, :, None]

    def adjust(layer: nn.Module, positional: tuple[Any, ...], named: dict[str, Any]) -> Any:
        named["r"] = named["r"] * sign
        if memory is not None:
            for name in ("attn_mask_h", "attn_mask_g"):
                named[name] = _hiding(named[name], memory.absent)
        return positional, named

    hooks = [layer.register_forward_pre_hook(adjust, with_kwargs=True) for layer in model.layer]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _hiding(mask: Tensor, absent: Tensor) -> Tensor:
    """An attention mask [T, m + T, B, 1] that also hides absent memory."""
    size = absent.shape[1]
    hidden = absent.T.to(mask.dtype)[None, :, :, None].expand(mask.shape[0], -1, -1, -1)
    return torch.cat([torch.maximum(mask[:, :size], hidden), mask[:, size:]], dim=1)
