"""Sparse combinations of seen tokens: FOCUS (sparsemax) and orthogonal matching pursuit.

Both compute weights in the space of static embeddings and apply them to the seen tokens' upstream embeddings.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from subgraft.embeddings.initialisers.new_rows import NewRows, Request, combined
from subgraft.embeddings.initialisers.static_rows import StaticSpace

ATOMS = 8  # seen tokens that one unseen token is combined from
_BLOCK = 1024  # unseen tokens at a time


def mix_sparsemax(request: Request, space: StaticSpace) -> NewRows:
    """FOCUS (Dobler and de Melo, EMNLP 2023, section 2): seen tokens weighted by sparsemax over cosines."""
    unit = F.normalize(space.seen, dim=1)
    rows, columns, weights = [], [], []
    for start in range(0, len(space.unseen), _BLOCK):
        dense = sparsemax(F.normalize(space.unseen[start : start + _BLOCK], dim=1) @ unit.T)
        row, column = dense.nonzero(as_tuple=True)
        rows.append(row + start)
        columns.append(column)
        weights.append(dense[row, column])
    tokens = space.origins[torch.cat(columns)]
    return combined(request, torch.cat(rows), tokens, torch.cat(weights), len(space.unseen))


def sparsemax(scores: Tensor) -> Tensor:
    """The point of the simplex nearest to each row of scores [n, m] (Martins and Astudillo, ICML 2016, algorithm 1)."""
    ordered, _ = scores.sort(dim=1, descending=True)
    sums = ordered.cumsum(dim=1) - 1
    ranks = torch.arange(1, scores.shape[1] + 1, dtype=scores.dtype, device=scores.device)
    size = (ranks * ordered > sums).sum(dim=1, keepdim=True)
    threshold = sums.gather(1, size - 1) / size
    return (scores - threshold).clamp_min(0)


def mix_matching_pursuit(request: Request, space: StaticSpace, atoms: int = ATOMS) -> NewRows:
    """Approximate each unseen vector by a combination of few seen ones, as in mergekit's tokensurgeon.

    The combination is found by orthogonal matching pursuit (Pati, Rezaiifar and Krishnaprasad 1993).
    """
    pursuits = [matching_pursuit(block, space.seen, atoms) for block in torch.split(space.unseen, _BLOCK)]
    chosen, coefficients = (torch.cat(part) for part in zip(*pursuits, strict=True))
    rows = torch.arange(len(chosen)).repeat_interleave(chosen.shape[1])
    return combined(request, rows, space.origins[chosen.flatten()], coefficients.flatten().float(), len(chosen))


def matching_pursuit(targets: Tensor, dictionary: Tensor, atoms: int) -> tuple[Tensor, Tensor]:
    """Indices into the dictionary [m, k] and coefficients, for each target [n, k]: [n, atoms] each.

    Every round adds the vector that is most aligned with the residual, and refits all coefficients.
    """
    targets, dictionary = targets.double(), dictionary.double()
    unit = F.normalize(dictionary, dim=1)
    chosen = torch.empty(len(targets), 0, dtype=torch.long)
    left, coefficients = targets, torch.empty(len(targets), 0, dtype=torch.double)
    # Allocated once for all rounds: allocating it in each round took longer than computing it.
    alignment = torch.empty(len(targets), len(dictionary), dtype=torch.double)
    for _ in range(min(atoms, *dictionary.shape)):
        torch.mm(left, unit.T, out=alignment).abs_().scatter_(1, chosen, -1.0)
        chosen = torch.cat([chosen, alignment.argmax(dim=1, keepdim=True)], dim=1)
        coefficients = _fitted(unit[chosen], targets)
        left = targets - (coefficients[:, None] @ unit[chosen]).squeeze(1)
    return chosen, coefficients / dictionary.norm(dim=1).clamp_min(torch.finfo(torch.double).tiny)[chosen]


def pursuit_by_product(targets: Tensor, dictionary: Tensor, atoms: int) -> tuple[Tensor, Tensor]:
    """As `matching_pursuit`, with the vectors as long as they are: long ones are chosen more readily.

    mergekit's tokensurgeon does so. Atoms are chosen in the precision of the dictionary, and fitted in double.
    """
    atoms, count = min(atoms, *dictionary.shape), len(targets)
    targets = targets.double()
    vectors = torch.empty(count, atoms, dictionary.shape[1], dtype=torch.double)
    gram = torch.empty(count, atoms, atoms, dtype=torch.double)
    products = torch.empty(count, atoms, dtype=torch.double)
    chosen, coefficients = torch.empty(count, atoms, dtype=torch.long), products
    alignment = torch.empty(count, len(dictionary), dtype=dictionary.dtype)
    left = targets
    for last in range(atoms):
        torch.mm(left.to(dictionary.dtype), dictionary.T, out=alignment).abs_().scatter_(1, chosen[:, :last], -1.0)
        chosen[:, last] = alignment.argmax(dim=1)
        newest, every = dictionary[chosen[:, last]].double(), vectors[:, : last + 1]
        vectors[:, last] = newest
        row = (every @ newest[:, :, None]).squeeze(2)
        gram[:, last, : last + 1] = gram[:, : last + 1, last] = row
        products[:, last] = (newest * targets).sum(dim=1)
        coefficients = _solved(gram[:, : last + 1, : last + 1], products[:, : last + 1])
        left = targets - (coefficients[:, None] @ every).squeeze(1)
    return chosen, coefficients


def _solved(gram: Tensor, products: Tensor) -> Tensor:
    """Coefficients [n, a], with a tiny ridge for vectors that are equal or zero."""
    ridge = 1e-12 * gram.diagonal(dim1=1, dim2=2).mean(dim=1) + 1e-30
    solved: Tensor = torch.linalg.solve(gram + torch.diag_embed(ridge[:, None].expand_as(products)), products)
    return solved


def _fitted(chosen: Tensor, targets: Tensor) -> Tensor:
    """Least-squares coefficients [n, a] of unit vectors [n, a, k], with a tiny ridge for equal vectors."""
    gram = chosen @ chosen.transpose(1, 2)
    ridge = 1e-10 * torch.eye(gram.shape[1], dtype=gram.dtype)
    fitted: Tensor = torch.linalg.solve(gram + ridge, (chosen @ targets[:, :, None])).squeeze(2)
    return fitted
