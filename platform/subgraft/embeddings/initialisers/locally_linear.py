"""Locally linear mapping of static embeddings into the model's space (Sato et al., Findings of EMNLP 2020).

The weights that reconstruct a token's static vector from its nearest seen tokens also mix its embedding from theirs
(Sakuma and Yoshinaga, CoNLL 2019). They are the weights of locally linear embedding (Roweis and Saul, Science 2000).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from subgraft.embeddings.initialisers.new_rows import NewRows, Request, combined
from subgraft.embeddings.initialisers.static_rows import StaticSpace

NEIGHBOURS = 10  # as in the program of the mapping's authors
_BLOCK = 1024  # tokens at a time
# Of the mean squared distance to the neighbours, as Roweis and Saul regularise. Without it weights of neighbours that
# lie near one another cancel out: rows become ten times as long as any, and as output rows take all probability.
RIDGE = 0.1
_SMALLEST = 1e-100  # where all neighbours lie on the token; its inverse is still finite


def mix_locally_linear(
    request: Request, space: StaticSpace, neighbours: int = NEIGHBOURS, ridge: float = RIDGE
) -> NewRows:
    """Mix the k nearest seen tokens by cosine with the weights that reconstruct the token's vector.

    A seen token that is initialised again is not its own neighbour: its row would not change.
    """
    own = _origins(request, space)
    k = min(neighbours, len(space.seen) - int(bool(torch.isin(own, space.origins).any())))
    unit = F.normalize(space.seen, dim=1)
    nearest, weights = [], []
    for vectors, ids in zip(torch.split(space.unseen, _BLOCK), torch.split(own, _BLOCK), strict=True):
        cosines = F.normalize(vectors, dim=1) @ unit.T
        indices = cosines.masked_fill_(ids[:, None] == space.origins, -torch.inf).topk(k, dim=1).indices
        nearest.append(indices)
        weights.append(local_weights(vectors, space.seen[indices], ridge))
    tokens = space.origins[torch.cat(nearest)]
    rows = torch.arange(len(tokens)).repeat_interleave(k)
    return combined(request, rows, tokens.flatten(), torch.cat(weights).flatten().float(), len(tokens))


def local_weights(vectors: Tensor, neighbours: Tensor, ridge: float) -> Tensor:
    """Weights [n, k] in fp64 that sum to one and reconstruct vectors [n, d] from neighbours [n, k, d].

    They minimise squared distance + ridge · mean squared distance of the neighbours · squared weights. A tiny ridge
    gives the smallest of the nearest solutions, a large one the mean of the neighbours.
    """
    differences = neighbours.double() - vectors.double()[:, None]
    gram = differences @ differences.transpose(1, 2)
    added = (ridge * gram.diagonal(dim1=1, dim2=2).mean(dim=1)).clamp_min(_SMALLEST)
    gram.diagonal(dim1=1, dim2=2).add_(added[:, None])
    solved: Tensor = torch.linalg.solve(gram, torch.ones_like(gram[..., 0]))
    return solved / solved.sum(dim=1, keepdim=True)


def _origins(request: Request, space: StaticSpace) -> Tensor:
    """Upstream ids int64 [n] of the tokens with a vector, -1 for tokens that the upstream vocabulary lacks."""
    located = [entry for entry in request.entries if space.embeddings.row(entry) is not None]
    return torch.tensor([request.source.ids.get(entry, -1) for entry in located], dtype=torch.long)
