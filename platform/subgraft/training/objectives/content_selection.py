"""Which tokens of a source its target has, as a content selector learns them (Gehrmann et al., EMNLP 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits


def spans_in_target(source: Sequence[int], target: Sequence[int]) -> list[bool]:
    """Of each token of the source, whether it is copied (section 3.1).

    It is where it belongs to a run of tokens that the target has, the longest there is from where the run before it
    ended, and no earlier run was of the same tokens.
    """
    copied, seen, start = [False] * len(source), set(), 0
    while start < len(source):
        end = _end_of_run(source, start, target)
        run = tuple(source[start:end])
        if run and run not in seen:
            seen.add(run)
            copied[start:end] = [True] * len(run)
        start = max(end, start + 1)
    return copied


def _end_of_run(source: Sequence[int], start: int, target: Sequence[int]) -> int:
    """The end of the longest run from `start` on that the target has somewhere."""
    end, places = start, [at for at, token in enumerate(target) if token == source[start]]
    while places:
        end += 1
        places = [at + 1 for at in places if end < len(source) and target[at + 1 : at + 2] == source[end : end + 1]]
    return end


def selection_loss(log_odds: Tensor, source: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of a selector, summed over the tokens of sources, in nats.

    log_odds, of being copied, source and its mask, behind whose tokens all is padding: [B, S].  labels: ids of targets
    [B, T], below zero where there is none.
    """
    copied = torch.zeros(log_odds.shape, dtype=log_odds.dtype)
    lengths = mask.sum(1).tolist()
    for place, (row, length, target) in enumerate(zip(source.tolist(), lengths, labels.tolist(), strict=True)):
        found = spans_in_target(row[:length], [token for token in target if token >= 0])
        copied[place, :length] = torch.tensor(found, dtype=copied.dtype)
    weights = mask.to(log_odds.dtype)
    return binary_cross_entropy_with_logits(log_odds, copied.to(log_odds.device), weights, reduction="sum")
