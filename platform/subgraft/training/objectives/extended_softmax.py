"""Cross entropy over a vocabulary plus a batch's new tokens, each of which competes only in some sentences."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class CompetingTokens:
    """The softmax's classes: which of the V tokens of the vocabulary and of a batch's K new tokens compete.

    Attributes:
        own: bool [B, K], the new tokens that compete in each sentence.
        spelling: int64 [K], the token of the vocabulary with the same spelling, or else a number >= V that is equal for
            equal spellings. Tokens with the same spelling do not compete.
        absent: int64 [A], tokens of the vocabulary that do not compete.
        weights: float [K], added to the logits of new tokens: log(n / k) if k sampled tokens represent n.
    """

    own: Tensor
    spelling: Tensor
    absent: Tensor
    weights: Tensor

    @classmethod
    def of(cls, own: Tensor, spelling: Tensor) -> CompetingTokens:
        """The complete vocabulary competes, and each new token represents itself."""
        return cls(own, spelling, torch.zeros(0, dtype=torch.long), torch.zeros(len(spelling)))

    def to(self, device: torch.device | str) -> CompetingTokens:
        return CompetingTokens(*(getattr(self, each.name).to(device) for each in fields(self)))


def without_twins(known: Tensor, own: Tensor, labels: Tensor, spelling: Tensor) -> tuple[Tensor, Tensor]:
    """Remove other tokens with the same spelling as the label from the label's softmax.

    Args:
        known: logits [N, V] of the vocabulary; removed tokens become -inf.
        own: bool [N, K], new tokens that compete.
        labels: ids [N]; new tokens count from V on.
        spelling: int64 [K], see `CompetingTokens`.

    Returns:
        `known` and `own` without the removed tokens.
    """
    size = known.shape[1]
    is_new = labels >= size
    spelled = torch.where(is_new, spelling[torch.where(is_new, labels - size, 0)], labels)
    itself = labels[:, None] - size == torch.arange(len(spelling), device=labels.device)
    own = own & ((spelling != spelled[:, None]) | itself)
    (aside,) = (is_new & (spelled < size)).nonzero(as_tuple=True)
    if len(aside):
        known = known.index_put((aside, spelled[aside]), known.new_tensor(-torch.inf))
    return known, own


def extended_cross_entropy(known: Tensor, new: Tensor, own: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
    """Cross entropy over V known and K new tokens, summed over N labels.

    It equals cross_entropy over the concatenation of all competing tokens, which is never built.

    Args:
        known: logits [N, V]; -inf for tokens that do not compete.
        new: logits [N, K].
        own: bool [N, K], new tokens that compete.
        labels: ids [N]; new tokens count from V on.
        label_smoothing: weight of the uniform distribution over competing tokens.
    """
    size = known.shape[1]
    allowed = new.masked_fill(~own, -torch.inf)
    # A sentence without new tokens has a row of -inf alone, whose logsumexp has no gradient: so not logaddexp of two.
    normaliser = torch.cat([known.logsumexp(dim=1, keepdim=True), allowed], dim=1).logsumexp(dim=1)
    is_new = labels >= size
    gold_known = known.gather(1, torch.where(is_new, 0, labels)[:, None])[:, 0]
    gold_new = new.gather(1, torch.where(is_new, labels - size, 0)[:, None])[:, 0]
    gold = torch.where(is_new, gold_new, gold_known)
    nll = normaliser - gold
    if not label_smoothing:
        return nll.sum()
    there = known > -torch.inf
    total = torch.where(there, known, 0.0).sum(dim=1) + torch.where(own, new, 0.0).sum(dim=1)
    uniform = normaliser - total / (there.sum(dim=1) + own.sum(dim=1))
    return ((1.0 - label_smoothing) * nll + label_smoothing * uniform).sum()
