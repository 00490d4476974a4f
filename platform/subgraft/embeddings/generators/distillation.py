"""Word-aligned knowledge distillation (Liu et al., 2021, equation 4).

For every smallest span at whose ends the original and the re-segmented sentence agree, the Euclidean distance between
the mean top hidden states of the frozen model on either.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from subgraft.embeddings.generators.simulation import SpanPairs

Position = Literal["input", "prediction"]


def span_distance(teacher: Tensor, student: Tensor, spans: SpanPairs, shift: int) -> Tensor:
    """Sum over spans of the distance of their mean hidden states.

    teacher: [B, T, d] states on the original sentences; student: [B, T', d] on the re-segmented ones.
    shift: where a token's state is, relative to its position among the labels. A causal decoder that reads a token as
    its input does so one position later than it predicts it (1); an encoder state stands at the token itself (0).
    """
    originals = _span_means(teacher, spans.original, spans.count, shift)
    resegmented = _span_means(student, spans.resegmented, spans.count, shift)
    distances: Tensor = torch.linalg.vector_norm(originals - resegmented, dim=-1)
    return distances.sum()


def _span_means(states: Tensor, members: Tensor, count: int, shift: int) -> Tensor:
    """Mean state of each span [count, d], in fp32."""
    sentence, position, span = members.unbind(dim=1)
    picked = states[sentence, position + shift].float()
    sums = picked.new_zeros(count, picked.shape[-1]).index_add(0, span, picked)
    return sums / torch.bincount(span, minlength=count).clamp(min=1)[:, None]


def state_shift(causal: bool, position: Position) -> int:
    """How far a token's state stands behind its place among labels (of a causal stack) or inputs (of another)."""
    return 1 if causal and position == "input" else 0
