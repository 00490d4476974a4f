"""Mixtures of the nearest upstream tokens (WECHSEL: Minixhofer, Paischer and Rekabsaz, NAACL 2022, section 3).

The paper aligns the static spaces of two languages by a dictionary. Here both vocabularies are of one language, so one
space is enough. An upstream token of the new vocabulary has its static vector; any other has the sum of the vectors of
the pieces into which the new vocabulary segments it, where the paper sums character n-grams.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from subgraft.embeddings.initialisers.new_rows import NewRows, Request, combined
from subgraft.embeddings.initialisers.static_embeddings import StaticEmbeddings
from subgraft.embeddings.initialisers.static_rows import StaticSpace
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

NEIGHBOURS = 10  # the paper's k
TEMPERATURE = 0.1  # the paper's tau
_BLOCK = 1024  # unseen tokens compared at a time


def mix_nearest(
    request: Request, space: StaticSpace, neighbours: int = NEIGHBOURS, temperature: float = TEMPERATURE
) -> NewRows:
    """Mix the k nearest upstream tokens by cosine, weighted by softmax(cosine / temperature)."""
    tokens, vectors = upstream_vectors(request.source, space.embeddings)
    nearest, weights = nearest_weights(space.unseen, vectors, neighbours, temperature)
    rows = torch.arange(len(nearest)).repeat_interleave(nearest.shape[1])
    return combined(request, rows, tokens[nearest.flatten()], weights.flatten(), len(nearest))


def upstream_vectors(source: Tokenizer, embeddings: StaticEmbeddings) -> tuple[Tensor, Tensor]:
    """Ids int64 [m] and vectors [m, k] of all upstream subwords that have a vector in the static space."""
    fitted = embeddings.tokenizer
    segmented = fitted.segment_batch(list(source.ids))
    known = embeddings.known.tolist()
    parts: list[list[int]] = []
    for entry, ids in zip(source.ids, segmented, strict=True):
        own = fitted.ids.get(entry)
        parts.append([own] if own is not None and known[own] else [i for i in ids if known[i]])
    counts = torch.tensor([len(ids) for ids in parts], dtype=torch.long)
    flat = torch.tensor([i for ids in parts for i in ids], dtype=torch.long)
    rows = torch.repeat_interleave(torch.arange(len(counts)), counts)
    sums = torch.zeros(len(counts), embeddings.vectors.shape[1]).index_add_(0, rows, embeddings.vectors[flat])
    said = counts > 0
    return torch.tensor(list(source.ids.values()), dtype=torch.long)[said], sums[said]


def nearest_weights(unseen: Tensor, candidates: Tensor, neighbours: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Indices and weights of the k nearest candidates of each of n vectors, nearest first: [n, k] each."""
    unit, k = F.normalize(candidates, dim=1), min(neighbours, len(candidates))
    blocks = [(F.normalize(block, dim=1) @ unit.T).topk(k, dim=1) for block in torch.split(unseen, _BLOCK)]
    cosines = torch.cat([block.values for block in blocks])
    return torch.cat([block.indices for block in blocks]), (cosines / temperature).softmax(dim=1)
