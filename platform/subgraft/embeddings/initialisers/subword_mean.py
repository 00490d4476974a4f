"""The mean of a token's subwords: a method of its own, and what others fall back to."""

from __future__ import annotations

from dataclasses import replace

import torch

from subgraft.embeddings.initialisers.new_rows import NewRows, Request, combined
from subgraft.subwords.similar_tokens.finder import count_fallbacks
from subgraft.subwords.similar_tokens.token_subwords import subwords


def mix_subwords(request: Request) -> NewRows:
    """The mean of each token's upstream subwords: an initialiser, and the fallback of others.

    Tokens without subwords fall back to their characters, then bytes, then the mean row.
    """
    parts = subwords(request.source, request.entries)
    counts = torch.tensor([len(each.ids) for each in parts] + [0] * request.others, dtype=torch.long)
    rows = torch.repeat_interleave(torch.arange(len(counts)), counts)
    tokens = torch.tensor([i for each in parts for i in each.ids], dtype=torch.long)
    mixed = combined(request, rows, tokens, 1.0 / counts[rows], len(counts))
    return replace(mixed, fallbacks=count_fallbacks(each.fallback for each in parts))
