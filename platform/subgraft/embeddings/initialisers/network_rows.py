"""Rows by a trained network: the mean of a token's pieces, and what the network adds to it."""

from __future__ import annotations

import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.embeddings.generators.metadata import check_origin
from subgraft.embeddings.generators.network import Network, load_network
from subgraft.embeddings.generators.token_pieces import ABSENT, TokenPieces
from subgraft.embeddings.initialisers.new_rows import FloatTables, NewRows, Request
from subgraft.modeling.sides import Side
from subgraft.subwords.similar_tokens.finder import count_fallbacks
from subgraft.subwords.similar_tokens.token_subwords import subwords

# Tokens at a time, of about as many pieces: states of padding would be most of the work.
_BLOCK = 1024


def add_to_mean(request: Request) -> NewRows:
    """Raises UserError without a network, and for one that was trained for another model."""
    if request.generator is None:
        raise UserError("network needs a trained generator", hint="`subgraft generator train` trains one for a model.")
    network, origin = load_network(request.generator, request.side.name)
    if not request.origin_checked:
        check_origin(origin, request.side.input.weight, request.source.fingerprint, str(request.generator))
    tokens = TokenPieces.of(request.source, request.entries, request.common, request.others)
    joined = made(network, request.side, tokens)
    fallbacks = count_fallbacks(parts.fallback for parts in subwords(request.source, request.entries))
    return FloatTables.of(request.side).rows(joined, fallbacks)


@torch.no_grad()
def made(network: Network, side: Side, tokens: TokenPieces) -> Tensor:
    """Rows of n tokens, those of all tables beside one another, as `FloatTables.joined` has them."""
    tables = FloatTables.of(side)
    network.eval()
    by_length = (tokens.pieces != ABSENT).sum(dim=1).argsort(stable=True)
    blocks = []
    for places in torch.split(by_length, _BLOCK):
        rows = network.rows(side, tokens.take(places))
        output = None if tables.output is None else rows.of("output", tables.output)
        bias = None if tables.bias is None else rows.of("bias", tables.bias)
        blocks.append(torch.cat([t for t in (rows.of("input", tables.input), output, bias) if t is not None], dim=1))
    return torch.cat(blocks)[by_length.argsort()] if blocks else tables.joined()[:0]
