"""Mixtures of upstream rows by weights that are computed in the space of static embeddings.

FOCUS and orthogonal matching pursuit combine few seen tokens; WECHSEL mixes the nearest upstream tokens; locally linear
mapping reconstructs a token from the nearest seen ones.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from subgraft.embeddings.initialisers.new_rows import InitialiserInputs, NewRows, combine_rows
from subgraft.embeddings.initialisers.static_embeddings import StaticEmbeddings
from subgraft.embeddings.initialisers.static_rows import StaticSpace
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

ATOMS = 8  # seen tokens that matching pursuit combines
NEIGHBOURS = 10  # WECHSEL's k, and that of the locally linear mapping's program
TEMPERATURE = 0.1  # WECHSEL's tau
# The ridge, as a fraction of the mean squared distance to the neighbours (Roweis and Saul). Without it large weights of
# opposite sign appear for neighbours that are close to each other. The resulting rows are ten times as long as any
# other, and as output rows they take all probability.
RIDGE = 0.1
_SMALLEST = 1e-100  # the ridge if all neighbours coincide with the token; its inverse is finite
_BLOCK = 1024  # unseen tokens at a time


def mix_sparsemax(request: InitialiserInputs, space: StaticSpace) -> NewRows:
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
    return combine_rows(request, torch.cat(rows), tokens, torch.cat(weights), len(space.unseen))


def sparsemax(scores: Tensor) -> Tensor:
    """The point of the simplex nearest to each row of scores [n, m] (Martins and Astudillo, ICML 2016, algorithm 1)."""
    ordered, _ = scores.sort(dim=1, descending=True)
    sums = ordered.cumsum(dim=1) - 1
    ranks = torch.arange(1, scores.shape[1] + 1, dtype=scores.dtype, device=scores.device)
    size = (ranks * ordered > sums).sum(dim=1, keepdim=True)
    threshold = sums.gather(1, size - 1) / size
    return (scores - threshold).clamp_min(0)


def mix_matching_pursuit(request: InitialiserInputs, space: StaticSpace, atoms: int = ATOMS) -> NewRows:
    """Approximate each unseen vector by a combination of few seen ones, as in mergekit's tokensurgeon.

    The combination is found by orthogonal matching pursuit (Pati, Rezaiifar and Krishnaprasad 1993).
    """
    pursuits = [matching_pursuit(block, space.seen, atoms) for block in torch.split(space.unseen, _BLOCK)]
    selected, coefficients = (torch.cat(part) for part in zip(*pursuits, strict=True))
    rows = torch.arange(len(selected)).repeat_interleave(selected.shape[1])
    return combine_rows(request, rows, space.origins[selected.flatten()], coefficients.flatten().float(), len(selected))


def matching_pursuit(targets: Tensor, dictionary: Tensor, atoms: int) -> tuple[Tensor, Tensor]:
    """Indices into the dictionary [m, k] and coefficients, for each target [n, k]: [n, atoms] each.

    Every round adds the vector that is most aligned with the residual, and refits all coefficients.
    """
    targets, dictionary = targets.double(), dictionary.double()
    unit = F.normalize(dictionary, dim=1)
    selected = torch.empty(len(targets), 0, dtype=torch.long)
    residual, coefficients = targets, torch.empty(len(targets), 0, dtype=torch.double)
    # Allocated once for all rounds: allocating it in each round took longer than computing it.
    alignment = torch.empty(len(targets), len(dictionary), dtype=torch.double)
    for _ in range(min(atoms, *dictionary.shape)):
        torch.mm(residual, unit.T, out=alignment).abs_().scatter_(1, selected, -1.0)
        selected = torch.cat([selected, alignment.argmax(dim=1, keepdim=True)], dim=1)
        coefficients = _least_squares(unit[selected], targets)
        residual = targets - (coefficients[:, None] @ unit[selected]).squeeze(1)
    return selected, coefficients / dictionary.norm(dim=1).clamp_min(torch.finfo(torch.double).tiny)[selected]


def _least_squares(vectors: Tensor, targets: Tensor) -> Tensor:
    """Least-squares coefficients [n, a] of unit vectors [n, a, k], with a tiny ridge for equal vectors."""
    gram = vectors @ vectors.transpose(1, 2)
    ridge = 1e-10 * torch.eye(gram.shape[1], dtype=gram.dtype)
    coefficients: Tensor = torch.linalg.solve(gram + ridge, (vectors @ targets[:, :, None])).squeeze(2)
    return coefficients


def mix_nearest(
    request: InitialiserInputs, space: StaticSpace, neighbours: int = NEIGHBOURS, temperature: float = TEMPERATURE
) -> NewRows:
    """Mix the k nearest upstream tokens by cosine, weighted by softmax(cosine / temperature).

    It is WECHSEL (Minixhofer, Paischer and Rekabsaz, NAACL 2022, section 3), which aligns the static spaces of two
    languages by a dictionary. Here both vocabularies are of one language, so one space is enough.
    """
    tokens, vectors = upstream_vectors(request.source, space.embeddings)
    nearest, weights = nearest_weights(space.unseen, vectors, neighbours, temperature)
    rows = torch.arange(len(nearest)).repeat_interleave(nearest.shape[1])
    return combine_rows(request, rows, tokens[nearest.flatten()], weights.flatten(), len(nearest))


def upstream_vectors(source: Tokenizer, embeddings: StaticEmbeddings) -> tuple[Tensor, Tensor]:
    """Ids int64 [m] and vectors [m, k] of all upstream subwords that have a vector in the static space.

    A token of both vocabularies has its own vector. Any other has the sum of the vectors of the pieces into which the
    new vocabulary segments it, where the paper sums character n-grams.
    """
    downstream = embeddings.tokenizer
    segmented = downstream.segment_batch(list(source.ids))
    known = embeddings.known.tolist()
    parts: list[list[int]] = []
    for entry, ids in zip(source.ids, segmented, strict=True):
        own = downstream.ids.get(entry)
        parts.append([own] if own is not None and known[own] else [i for i in ids if known[i]])
    counts = torch.tensor([len(ids) for ids in parts], dtype=torch.long)
    flat = torch.tensor([i for ids in parts for i in ids], dtype=torch.long)
    rows = torch.repeat_interleave(torch.arange(len(counts)), counts)
    sums = torch.zeros(len(counts), embeddings.vectors.shape[1]).index_add_(0, rows, embeddings.vectors[flat])
    has_vector = counts > 0
    return torch.tensor(list(source.ids.values()), dtype=torch.long)[has_vector], sums[has_vector]


def nearest_weights(unseen: Tensor, candidates: Tensor, neighbours: int, temperature: float) -> tuple[Tensor, Tensor]:
    """Indices and weights of the k nearest candidates of each of n vectors, nearest first: [n, k] each."""
    unit, k = F.normalize(candidates, dim=1), min(neighbours, len(candidates))
    blocks = [(F.normalize(block, dim=1) @ unit.T).topk(k, dim=1) for block in torch.split(unseen, _BLOCK)]
    cosines = torch.cat([block.values for block in blocks])
    return torch.cat([block.indices for block in blocks]), (cosines / temperature).softmax(dim=1)


def mix_locally_linear(
    request: InitialiserInputs, space: StaticSpace, neighbours: int = NEIGHBOURS, ridge: float = RIDGE
) -> NewRows:
    """Mix the k nearest seen tokens by cosine with the weights that reconstruct the token's vector.

    Sakuma and Yoshinaga (CoNLL 2019), Sato et al. (Findings of EMNLP 2020); the weights are those of locally linear
    embedding (Roweis and Saul, Science 2000).

    A seen token that is initialised again is excluded from its own neighbours; otherwise its row would not change.
    """
    # Upstream ids of the tokens with a vector, -1 for tokens that the upstream vocabulary lacks.
    with_vector = [entry for entry in request.entries if space.embeddings.row(entry) is not None]
    own = torch.tensor([request.source.ids.get(entry, -1) for entry in with_vector], dtype=torch.long)
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
    return combine_rows(request, rows, tokens.flatten(), torch.cat(weights).flatten().float(), len(tokens))


def local_weights(vectors: Tensor, neighbours: Tensor, ridge: float) -> Tensor:
    """Weights [n, k] in fp64 that sum to one and reconstruct vectors [n, d] from neighbours [n, k, d].

    They minimise squared distance + ridge · mean squared distance of the neighbours · squared weights. A tiny ridge
    gives the smallest of the nearest solutions, a large one the mean of the neighbours.
    """
    differences = neighbours.double() - vectors.double()[:, None]
    gram = differences @ differences.transpose(1, 2)
    added = (ridge * gram.diagonal(dim1=1, dim2=2).mean(dim=1)).clamp_min(_SMALLEST)
    gram.diagonal(dim1=1, dim2=2).add_(added[:, None])
    solution: Tensor = torch.linalg.solve(gram, torch.ones_like(gram[..., 0]))
    return solution / solution.sum(dim=1, keepdim=True)
