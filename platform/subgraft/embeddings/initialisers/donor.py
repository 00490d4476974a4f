"""Embeddings of new tokens from a donor, a second model that has these tokens, mapped into the first model's space.

Shared tokens are in both vocabularies, whatever their mark of a word's beginning. They show how the two spaces relate.
As mergekit's tokensurgeon does, each table is mapped from the donor's table of the same kind; a bias goes with the
output embeddings, or with the input embeddings that these are tied to.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.embeddings.initialisers.donor_model import Donor, DonorSide
from subgraft.embeddings.initialisers.new_rows import FloatTables, NewRows, Request, interleaved, mix_subwords
from subgraft.subwords.vocabulary.alignment import NEW, align
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# Candidates for the ridge, relative to the mean variance of a dimension.
_RIDGES = (1e-10, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
_MOST_JUDGED = 4096  # shared tokens by whose error the ridge is chosen
_ENTRIES = 1 << 25  # numbers of all atoms of a block of tokens


@torch.no_grad()
def map_from_donor(request: Request) -> NewRows:
    """The donor's rows, mapped. Tokens that it lacks get the mean of their subwords, and are counted.

    Tokens that are not text (special tokens, bytes) are mapped as well if the donor has them.

    Raises UserError without a donor, and if it shares no token with the model.
    """
    if request.donor is None:
        hint = "`subgraft transfer --donor MODEL`, or `donor: {model: …}` in a system, names it."
        raise UserError("this method needs a donor, a model that has the new tokens", hint=hint)
    theirs = request.donor.side(request.side.name)
    ids = _donor_ids(request, theirs.tokenizer)
    had = [place for place, token in enumerate(ids) if token != NEW]
    lacking = [place for place, token in enumerate(ids) if token == NEW]
    subwords = [request.entries[place] for place in lacking if place < len(request.entries)]
    rest = mix_subwords(replace(request, entries=subwords, others=len(lacking) - len(subwords)))
    fallbacks = {"subwords": len(subwords) - sum(rest.fallbacks.values()), **rest.fallbacks}
    if not had:
        return replace(rest, fallbacks=fallbacks)
    mapped = _mapped(request, request.donor, theirs, torch.tensor([ids[place] for place in had]))
    return replace(interleaved(mapped, rest, [*had, *lacking]), fallbacks=fallbacks)


def _donor_ids(request: Request, donor: Tokenizer) -> list[int]:
    """The donor's id of each requested token, or NEW."""
    ids = [donor.ids.get(entry, NEW) for entry in request.entries]
    if request.target is None:
        return ids + [NEW] * request.others
    origins = align(donor, request.target).origins
    return ids + [int(origins[token]) for token in request.other_ids]


def shared_tokens(model: Tokenizer, donor: Tokenizer) -> tuple[Tensor, Tensor]:
    """Ids of the tokens of both vocabularies, in the model's and in the donor's; no special tokens."""
    origins = align(model, donor).origins
    origins[list(donor.special_ids)] = NEW
    shared = np.flatnonzero(origins != NEW)
    return torch.from_numpy(origins[shared]), torch.from_numpy(shared)


def _mapped(request: Request, donor: Donor, theirs: DonorSide, tokens: Tensor) -> NewRows:
    """The donor's rows of these tokens in the model's space, in each of its tables."""
    tables = FloatTables.of(request.side)
    ours, shared = shared_tokens(request.source, theirs.tokenizer)
    if all(theirs.tokenizer.entries[token] is None for token in shared.tolist()):
        what = f"the donor's vocabulary and the model's ({request.side.name}) share no token"
        raise UserError(what, where=donor.name, hint="Give a donor for the same languages and scripts.")

    def rows(origin: Tensor, bias: Tensor | None, wanted: Tensor) -> Tensor:
        """The rows of `wanted` [V, k], from the donor's `origin` [V', d]; a linear map also reads the donor's bias."""
        if donor.mapping.mapping == "omp":
            return combine_shared(origin[tokens], origin[shared], wanted[ours], donor.mapping.atoms)
        known = origin if bias is None else torch.cat([origin, bias], dim=1)
        return map_linearly(known[tokens], known[shared], wanted[ours], donor.mapping.ridge)

    their_output = theirs.input if theirs.output is None else theirs.output
    if tables.output is None:
        bias = None if tables.bias is None else theirs.bias
        return tables.rows(rows(theirs.input, bias, tables.joined()), {})
    heads = tables.output if tables.bias is None else torch.cat([tables.output, tables.bias], dim=1)
    bias = None if tables.bias is None else theirs.bias
    made = (rows(theirs.input, None, tables.input), rows(their_output, bias, heads))
    return tables.rows(torch.cat(made, dim=1), {})


def combine_shared(targets: Tensor, dictionary: Tensor, rows: Tensor, atoms: int) -> Tensor:
    """Sparse combinations of the dictionary [m, d] that approximate the targets [n, d], applied to rows [m, k]."""
    block = max(_ENTRIES // (min(atoms, *dictionary.shape) * dictionary.shape[1]), 1)
    made = []
    for part in torch.split(targets, min(block, 1024)):
        chosen, coefficients = pursuit_by_product(part, dictionary, atoms)
        made.append(torch.bmm(coefficients.float()[:, None], rows[chosen]).squeeze(1))
    return torch.cat(made)


def pursuit_by_product(targets: Tensor, dictionary: Tensor, atoms: int) -> tuple[Tensor, Tensor]:
    """As `static_mixtures.matching_pursuit`, but without normalising the vectors, so long ones are chosen more often.

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


def map_linearly(vectors: Tensor, known: Tensor, rows: Tensor, ridge: float | None) -> Tensor:
    """Vectors [n, d] under the affine map that fits known vectors [m, d] to their rows [m, k] best."""
    fitted = _Ridge(known, rows)
    return fitted.mapped(vectors, min(_RIDGES, key=fitted.error_left_out) if ridge is None else ridge)


class _Ridge:
    """Least squares with a constant, for any ridge: the covariance is decomposed once."""

    def __init__(self, known: Tensor, rows: Tensor) -> None:
        known, rows = known.double(), rows.double()
        self._middle, self._constant = known.mean(dim=0), rows.mean(dim=0)
        centred = known - self._middle
        self._values, self._directions = torch.linalg.eigh(centred.T @ centred)
        self._products = self._directions.T @ (centred.T @ (rows - self._constant))
        judged = slice(None, None, -(-len(known) // _MOST_JUDGED))
        self._judged, self._rows, self._count = centred[judged] @ self._directions, rows[judged], len(known)

    def mapped(self, vectors: Tensor, ridge: float) -> Tensor:
        return self._image((vectors.double() - self._middle) @ self._directions, ridge).float()

    def error_left_out(self, ridge: float) -> float:
        """The squared error on known vectors, each under the map that is fitted to all others (Allen 1974)."""
        own_weight = 1 / self._count + (self._judged.square() * self._scale(ridge)).sum(dim=1)
        if float(own_weight.max()) > 1 - 1e-8:  # the vector alone determines its image
            return math.inf
        errors = (self._image(self._judged, ridge) - self._rows) / (1 - own_weight)[:, None]
        return float(errors.square().sum())

    def _image(self, projected: Tensor, ridge: float) -> Tensor:
        image: Tensor = projected * self._scale(ridge) @ self._products + self._constant
        return image

    def _scale(self, ridge: float) -> Tensor:
        # Directions in which the known vectors do not differ carry no information.
        shifted = self._values + ridge * self._values.mean()
        return torch.where(self._values > 1e-12 * self._values[-1], 1 / shifted, 0.0)
