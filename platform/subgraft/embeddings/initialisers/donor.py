"""Embeddings of new tokens from a donor, a second model that has these tokens, mapped into the first model's space.

The mapping is fitted to shared tokens, which are in both vocabularies regardless of how these mark word boundaries. As
in mergekit's tokensurgeon, each table is mapped from the donor's table of the same kind. A bias is mapped together with
the output embeddings, or with the input embeddings if the output is tied to them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.embeddings.initialisers.donor_model import Donor, DonorSide
from subgraft.embeddings.initialisers.new_rows import (
    InitialiserInputs,
    NewRows,
    interleave_rows,
    mix_subwords,
)
from subgraft.modeling.sides import FloatTables
from subgraft.subwords.vocabulary.alignment import NEW, align
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# Candidates for the ridge, relative to the mean variance of a dimension.
_RIDGES = (1e-10, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
_MAX_SCORED = 4096  # the maximum number of shared tokens on which the error of a ridge is measured
_MAX_ELEMENTS = 1 << 25  # the maximum number of elements in the atoms of a block of tokens


@torch.no_grad()
def map_from_donor(request: InitialiserInputs) -> NewRows:
    """The donor's rows, mapped into the model's space. Tokens that the donor lacks get the mean of their subwords.

    Tokens that are not text (special tokens, bytes) are also mapped if the donor has them.

    Raises UserError without a donor, and if it shares no token with the model.
    """
    if request.donor is None:
        hint = "`subgraft transfer --donor MODEL`, or `donor: {model: …}` in a system, names it."
        raise UserError("this method needs a donor, a model that has the new tokens", hint=hint)
    donor_side = request.donor.side(request.side.name)
    donor = donor_side.tokenizer
    ids = [donor.ids.get(entry, NEW) for entry in request.entries]
    if request.target is None:
        ids += [NEW] * request.others
    else:
        origins = align(donor, request.target).origins
        ids += [int(origins[token]) for token in request.other_ids]
    available = [index for index, token in enumerate(ids) if token != NEW]
    missing = [index for index, token in enumerate(ids) if token == NEW]
    subwords = [request.entries[index] for index in missing if index < len(request.entries)]
    others = [index - len(request.entries) for index in missing[len(subwords) :]]
    other_ids = [request.other_ids[index] for index in others] if request.other_ids else ()
    subword_rows = mix_subwords(replace(request, entries=subwords, others=len(others), other_ids=other_ids))
    fallbacks = {"subwords": len(subwords) - sum(subword_rows.fallbacks.values()), **subword_rows.fallbacks}
    if not available:
        return replace(subword_rows, fallbacks=fallbacks)
    mapped = _map_rows(request, request.donor, donor_side, torch.tensor([ids[index] for index in available]))
    return replace(interleave_rows(mapped, subword_rows, [*available, *missing]), fallbacks=fallbacks)


def shared_tokens(model: Tokenizer, donor: Tokenizer) -> tuple[Tensor, Tensor]:
    """Ids of the tokens of both vocabularies, in the model's and in the donor's; no special tokens."""
    origins = align(model, donor).origins
    origins[list(donor.special_ids)] = NEW
    shared = np.flatnonzero(origins != NEW)
    return torch.from_numpy(origins[shared]), torch.from_numpy(shared)


def _map_rows(request: InitialiserInputs, donor: Donor, donor_side: DonorSide, tokens: Tensor) -> NewRows:
    """The donor's rows of these tokens in the model's space, in each of its tables."""
    tables = FloatTables.of(request.side)
    model_tokens, donor_tokens = shared_tokens(request.source, donor_side.tokenizer)
    if all(donor_side.tokenizer.entries[token] is None for token in donor_tokens.tolist()):
        what = f"the donor's vocabulary and the model's ({request.side.name}) share no token"
        raise UserError(what, where=donor.name, hint="Give a donor for the same languages and scripts.")

    def rows(origin: Tensor, bias: Tensor | None, table: Tensor) -> Tensor:
        """Rows of the model's `table` [V, k], mapped from the donor's `origin` [V', d] and, if linear, its bias."""
        if donor.mapping.mapping == "omp":
            return combine_shared(origin[tokens], origin[donor_tokens], table[model_tokens], donor.mapping.atoms)
        known = origin if bias is None else torch.cat([origin, bias], dim=1)
        return map_linearly(known[tokens], known[donor_tokens], table[model_tokens], donor.mapping.ridge)

    donor_tables = donor_side.tables
    bias = None if tables.bias is None else donor_tables.bias
    if tables.output is None:
        return NewRows.of_joined(rows(donor_tables.input, bias, tables.joined()), tables, {})
    heads = tables.output if tables.bias is None else torch.cat([tables.output, tables.bias], dim=1)
    donor_output = donor_tables.input if donor_tables.output is None else donor_tables.output
    mapped = (rows(donor_tables.input, None, tables.input), rows(donor_output, bias, heads))
    return NewRows.of_joined(torch.cat(mapped, dim=1), tables, {})


def combine_shared(targets: Tensor, dictionary: Tensor, rows: Tensor, atoms: int) -> Tensor:
    """Sparse combinations of the dictionary [m, d] that approximate the targets [n, d], applied to rows [m, k]."""
    block = max(_MAX_ELEMENTS // (min(atoms, *dictionary.shape) * dictionary.shape[1]), 1)
    combined = []
    for part in torch.split(targets, min(block, 1024)):
        selected, coefficients = pursuit_by_product(part, dictionary, atoms)
        combined.append(torch.bmm(coefficients.float()[:, None], rows[selected]).squeeze(1))
    return torch.cat(combined)


def pursuit_by_product(targets: Tensor, dictionary: Tensor, atoms: int) -> tuple[Tensor, Tensor]:
    """`static_mixtures.matching_pursuit` without normalisation, so that long vectors are selected more often.

    This is what mergekit's tokensurgeon does. Atoms are selected in the precision of the dictionary, and coefficients
    are fitted in double precision.
    """
    atoms, count = min(atoms, *dictionary.shape), len(targets)
    targets = targets.double()
    vectors = torch.empty(count, atoms, dictionary.shape[1], dtype=torch.double)
    gram = torch.empty(count, atoms, atoms, dtype=torch.double)
    products = torch.empty(count, atoms, dtype=torch.double)
    selected, coefficients = torch.empty(count, atoms, dtype=torch.long), products
    alignment = torch.empty(count, len(dictionary), dtype=dictionary.dtype)
    residual = targets
    for last in range(atoms):
        torch.mm(residual.to(dictionary.dtype), dictionary.T, out=alignment).abs_().scatter_(
            1, selected[:, :last], -1.0
        )
        selected[:, last] = alignment.argmax(dim=1)
        newest, selected_vectors = dictionary[selected[:, last]].double(), vectors[:, : last + 1]
        vectors[:, last] = newest
        row = (selected_vectors @ newest[:, :, None]).squeeze(2)
        gram[:, last, : last + 1] = gram[:, : last + 1, last] = row
        products[:, last] = (newest * targets).sum(dim=1)
        system, values = gram[:, : last + 1, : last + 1], products[:, : last + 1]
        # A tiny ridge, for vectors that are equal or zero.
        ridge = 1e-12 * system.diagonal(dim1=1, dim2=2).mean(dim=1) + 1e-30
        coefficients = torch.linalg.solve(system + torch.diag_embed(ridge[:, None].expand_as(values)), values)
        residual = targets - (coefficients[:, None] @ selected_vectors).squeeze(1)
    return selected, coefficients


def map_linearly(vectors: Tensor, known: Tensor, rows: Tensor, ridge: float | None) -> Tensor:
    """Vectors [n, d] under the affine map that fits known vectors [m, d] to their rows [m, k] best."""
    fitted = _Ridge(known, rows)
    return fitted.mapped(vectors, min(_RIDGES, key=fitted.error_left_out) if ridge is None else ridge)


class _Ridge:
    """Least squares with a constant, for any ridge: the covariance is decomposed once."""

    def __init__(self, known: Tensor, rows: Tensor) -> None:
        known, rows = known.double(), rows.double()
        self._mean, self._constant = known.mean(dim=0), rows.mean(dim=0)
        centred = known - self._mean
        self._values, self._directions = torch.linalg.eigh(centred.T @ centred)
        self._products = self._directions.T @ (centred.T @ (rows - self._constant))
        step = slice(None, None, -(-len(known) // _MAX_SCORED))
        self._scored, self._scored_rows, self._count = centred[step] @ self._directions, rows[step], len(known)

    def mapped(self, vectors: Tensor, ridge: float) -> Tensor:
        return self._image((vectors.double() - self._mean) @ self._directions, ridge).float()

    def error_left_out(self, ridge: float) -> float:
        """The leave-one-out squared error: each known vector under the map fitted to all others (Allen 1974)."""
        own_weight = 1 / self._count + (self._scored.square() * self._scale(ridge)).sum(dim=1)
        if float(own_weight.max()) > 1 - 1e-8:  # the vector alone determines its image
            return math.inf
        errors = (self._image(self._scored, ridge) - self._scored_rows) / (1 - own_weight)[:, None]
        return float(errors.square().sum())

    def _image(self, projected: Tensor, ridge: float) -> Tensor:
        image: Tensor = projected * self._scale(ridge) @ self._products + self._constant
        return image

    def _scale(self, ridge: float) -> Tensor:
        # Directions in which the known vectors do not differ carry no information.
        shifted = self._values + ridge * self._values.mean()
        return torch.where(self._values > 1e-12 * self._values[-1], 1 / shifted, 0.0)
