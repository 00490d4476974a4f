"""Copying tokens from the source in addition to generating them (pointer-generator; See et al., 2017).

P(y_t) = g_t softmax(logits_t)[y_t] + (1 - g_t) sum_i a_ti [x_i = y_t] (equation 9), where a is an attention of the
target's states over the source's, and the source's tokens x are in the decoder's vocabulary. Bottom-up attention
(Gehrmann et al., 2018) restricts a, in generation, to tokens that a content selector finds likely to be copied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from subgraft.modeling.conditioning.variants.variant import Memory

# Stands for log 0: its exponential underflows to exactly 0, but gradients stay finite.
LOG_ZERO = -1e30
# g starts at 0.88: outputs start close to the pretrained language model's, and rare tokens can still be copied.
INITIAL_GATE_BIAS = 2.0
# A selector starts by selecting one token in twenty, because few tokens are copied from a source that is much longer
# than its target.
INITIAL_SELECTOR_BIAS = -3.0


@dataclass(frozen=True)
class Copied:
    """The copy distribution of each target token; logarithms in fp32 or more.

    Attributes:
        generates: log g [B, T].
        copies: log (1 - g) [B, T].
        attention: log a [B, T, S].
        tokens: x [B, S], ids in the decoder's vocabulary.
        selection: The content selector's log-odds of each source token [B, S], if there is one.
    """

    generates: Tensor
    copies: Tensor
    attention: Tensor
    tokens: Tensor
    selection: Tensor | None = None

    def log_likelihood(self, generated: Tensor, labels: Tensor) -> Tensor:
        """log P of labels [B, T], given their log-likelihoods `generated` [B, T] under the language model."""
        matches = self.tokens[:, None] == labels[..., None]
        copied = self.attention.masked_fill(~matches, LOG_ZERO).logsumexp(-1)
        return torch.logaddexp(self.generates + generated, self.copies + copied)

    def mixture_log_probabilities(self, generated: Tensor) -> Tensor:
        """log P of all tokens of the vocabulary [B, T, V], given their log-probabilities `generated` [B, T, V]."""
        token_ids = self.tokens[:, None].expand_as(self.attention)
        mass = torch.zeros_like(generated).scatter_add(-1, token_ids, self.attention.exp().to(generated.dtype))
        tiny = torch.finfo(mass.dtype).tiny
        copied = mass.clamp_min(tiny).log().where(mass > 0, mass.new_tensor(LOG_ZERO))
        return torch.logaddexp(self.generates[..., None] + generated, self.copies[..., None] + copied)


class CopyHead(nn.Module):
    """a_t = softmax over i of (W h_t) m_i / sqrt(d), Luong et al.'s (2015) "general"; g_t = sigmoid(w h_t + b).

    h are the states that the language model predicts from, which every variant has, and m the encoder's states. It is a
    separate head because not every variant has cross-attention.

    threshold: for bottom-up attention, the minimum probability of a token under the content selector, sigmoid(v m_i +
    c). The selector is trained next to the model without changing it: its gradients stop at m.
    """

    def __init__(self, width: int, threshold: float | None = None) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.gate = nn.Linear(width, 1)
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, INITIAL_GATE_BIAS)
        self.threshold = threshold
        self.selector = None if threshold is None else nn.Linear(width, 1)
        if self.selector is not None:
            nn.init.zeros_(self.selector.weight)
            nn.init.constant_(self.selector.bias, INITIAL_SELECTOR_BIAS)

    def forward(self, top: Tensor, memory: Memory, selected: bool = False) -> Copied:
        """The copy distribution; nothing is copied from an empty source.

        Args:
            top: States that the language model predicts from [B, T, d].
            memory: The encoded source, with its tokens.
            selected: Whether only tokens chosen by the content selector, if there is one, can be copied.
        """
        assert memory.tokens is not None
        scores = self.query(top) @ memory.states.transpose(1, 2) / math.sqrt(top.shape[-1])
        dtype = torch.promote_types(scores.dtype, torch.float32)
        visible = memory.mask.bool()
        selection = None if self.selector is None else self.selector(memory.states.detach()).squeeze(-1).to(dtype)
        if selected and selection is not None:
            visible = visible & (selection.sigmoid() > self.threshold)
        attention = scores.to(dtype).masked_fill(~visible[:, None], LOG_ZERO).log_softmax(-1)
        gate, has_source = self.gate(top).squeeze(-1).to(dtype), visible.any(1, keepdim=True)
        generates = logsigmoid(gate).where(has_source, gate.new_zeros(()))
        copies = logsigmoid(-gate).where(has_source, gate.new_tensor(LOG_ZERO))
        return Copied(generates, copies, attention, memory.tokens, selection)


@dataclass(frozen=True)
class TargetStates:
    """States of target tokens given a source.

    Attributes:
        top: The states [B, T, d] that the output projection reads.
        copied: The copy distribution, in models that copy.
    """

    top: Tensor
    copied: Copied | None = None
