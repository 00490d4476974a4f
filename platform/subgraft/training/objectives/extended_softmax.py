"""Cross entropy over a vocabulary and a batch's new tokens, each of which competes in some sentences alone."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class CompetingTokens:
    """Which of a batch's K new tokens a softmax covers, beside the V tokens of the vocabulary.

    own: bool [B, K], those that the sentence competes with.
    spelling: int64 [K], what they spell: the token of the vocabulary that is spelled so, or a number from V on that is
    equal for equal spellings. Two tokens that are spelled alike do not compete.
    absent: int64 [A], tokens of the vocabulary that do not take part at all.
    weights: float [K], added to the logits of the new tokens: where k of n tokens stand for all of them in the sum, the
    logarithm of n / k.
    """

    own: Tensor
    spelling: Tensor
    absent: Tensor
    weights: Tensor

    @classmethod
    def of(cls, own: Tensor, spelling: Tensor) -> CompetingTokens:
        """Beside the whole vocabulary, each new token for itself."""
        return cls(own, spelling, torch.zeros(0, dtype=torch.long), torch.zeros(len(spelling)))

    def to(self, device: torch.device | str) -> CompetingTokens:
        return CompetingTokens(*(getattr(self, each.name).to(device) for each in fields(self)))


def without_twins(known: Tensor, own: Tensor, labels: Tensor, spelling: Tensor) -> tuple[Tensor, Tensor]:
    """Take what is spelled as a label [N] is, and yet is another token, out of its softmax.

    known [N, V]: logits, -inf for a token that stands aside for the new one of its spelling [K].  own [N, K]: which new
    tokens take part.
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
    """Cross entropy summed over N labels, over V known tokens and those of K new ones that take part.

    known [N, V] and new [N, K] are logits; own [N, K] tells which new tokens take part, a known one does not where it
    is -inf; labels [N] count new tokens from V on. Equals cross_entropy over the concatenation without the others,
    which is never built.
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
