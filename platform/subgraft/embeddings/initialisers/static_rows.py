"""Initialisers by static embeddings: the part that they share, and the two methods that use the vectors directly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.embeddings.initialisers.new_rows import (
    InitialiserInputs,
    NewRows,
    interleave_rows,
    mix_subwords,
)
from subgraft.embeddings.initialisers.static_embeddings import HOW_TO_MAKE, StaticEmbeddings
from subgraft.modeling.sides import FloatTables


@dataclass(frozen=True)
class StaticSpace:
    """The static vectors of unseen and seen tokens.

    Attributes:
        unseen: vectors [n, k] of unseen tokens; those without a vector are left out.
        seen: vectors [m, k] of tokens of both vocabularies, m > 0.
        origins: int64 [m], the upstream ids of seen tokens.
        embeddings: all static embeddings.
    """

    unseen: Tensor
    seen: Tensor
    origins: Tensor
    embeddings: StaticEmbeddings


StaticMethod = Callable[[InitialiserInputs, StaticSpace], NewRows]


def from_static(request: InitialiserInputs, method: StaticMethod) -> NewRows:
    """Rows by the method for unseen tokens with a static vector, and the mean of subwords for the others.

    Raises UserError without static embeddings, for those of another vocabulary, and if no seen token has a vector.
    """
    if request.static is None:
        raise UserError("this method needs static embeddings of the new vocabulary", hint=HOW_TO_MAKE)
    embeddings = StaticEmbeddings.load(request.static)
    vector_rows = [embeddings.row(entry) for entry in request.entries]
    known = [i for i, row in enumerate(vector_rows) if row is not None]
    missing = [i for i, row in enumerate(vector_rows) if row is None]
    subword_rows = mix_subwords(replace(request, entries=[request.entries[i] for i in missing]))
    fallbacks = {"subwords": len(missing) - sum(subword_rows.fallbacks.values()), **subword_rows.fallbacks}
    if not known:
        return replace(subword_rows, fallbacks=fallbacks)
    vectors = embeddings.vectors[[row for row in vector_rows if row is not None]]
    static_rows = method(request, _space(request, embeddings, vectors))
    # Tokens that are not text come last, also in `subword_rows`.
    others = range(len(request.entries), len(request.entries) + request.others)
    return replace(interleave_rows(static_rows, subword_rows, [*known, *missing, *others]), fallbacks=fallbacks)


def _space(request: InitialiserInputs, embeddings: StaticEmbeddings, unseen: Tensor) -> StaticSpace:
    pairs = [
        (token, request.source.ids[entry])
        for entry, token in embeddings.tokenizer.ids.items()
        if embeddings.known[token] and entry in request.source.ids
    ]
    if not pairs:
        raise UserError(
            "no token of the upstream vocabulary has a static embedding, so the two spaces cannot be related",
            where=str(request.static),
            hint="Train them on more text.",
        )
    tokens, origins = torch.tensor(pairs, dtype=torch.long).T
    return StaticSpace(unseen, embeddings.vectors[tokens], origins, embeddings)


def take_vectors(request: InitialiserInputs, space: StaticSpace) -> NewRows:
    """The vectors themselves, scaled to the standard deviation of each table's ordinary rows; the bias is zero.

    Raises UserError if their dimensions differ from the embeddings' (word2vec: Mikolov et al. 2013).
    """
    tables, width = FloatTables.of(request.side), space.unseen.shape[1]
    if width != tables.input.shape[1]:
        raise UserError(
            f"the static embeddings have {width} dimensions, the model's table {tables.input.shape[1]}",
            where=str(request.static),
            hint="Train them as wide as the table (static_embeddings.dimensions), or use word2vec-mapped.",
        )
    scale, ordinary = torch.cat([space.unseen, space.seen]).std(), torch.from_numpy(request.source.ordinary_ids)
    output = None if tables.output is None else space.unseen * (tables.output[ordinary].std() / scale)
    bias = None if tables.bias is None else torch.zeros(len(space.unseen))
    return NewRows(space.unseen * (tables.input[ordinary].std() / scale), output, bias, {})


def map_vectors(request: InitialiserInputs, space: StaticSpace) -> NewRows:
    """The vectors under the affine map that fits seen tokens to their rows (Mikolov, Le and Sutskever 2013).

    It is the least-squares solution over seen tokens, for all tables at once; the smallest one if it is not unique.
    """
    tables = FloatTables.of(request.side)
    targets = tables.joined()[space.origins].double()
    solution = torch.linalg.lstsq(_with_constant(space.seen), targets, driver="gelsd").solution
    return NewRows.of_joined((_with_constant(space.unseen) @ solution).float(), tables, {})


def _with_constant(vectors: Tensor) -> Tensor:
    return torch.cat([vectors.double(), torch.ones(len(vectors), 1, dtype=torch.double)], dim=1)
