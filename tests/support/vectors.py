"""Static embeddings that tests make up, and upstream sides to bring them to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from subgraft.embeddings.initialisers.new_rows import InitialiserInputs
from subgraft.embeddings.initialisers.static_embeddings import StaticEmbeddings
from subgraft.embeddings.initialisers.static_rows import StaticSpace
from subgraft.modeling.sides import Side, side
from subgraft.subwords.vocabulary.entry import Entry
from toys import fitted_tokenizer, mbart, multilingual_tokenizer, output_bias


def unseen() -> list[Entry]:
    """Entries of the fitted vocabulary that the multilingual one lacks."""
    known = multilingual_tokenizer().ids
    return [entry for entry in fitted_tokenizer().ids if entry not in known]


def drawn(dimensions: int, lacking: Sequence[Entry] = ()) -> StaticEmbeddings:
    """Normal vectors for all subwords of the fitted vocabulary but those lacking."""
    tokenizer = fitted_tokenizer()
    known = torch.zeros(len(tokenizer), dtype=torch.bool)
    known[list(tokenizer.ids.values())] = True
    known[[tokenizer.ids[entry] for entry in lacking]] = False
    vectors = torch.randn(len(tokenizer), dimensions, generator=torch.Generator().manual_seed(5))
    return StaticEmbeddings(tokenizer, vectors * known[:, None], known, {})


def seen_pairs(embeddings: StaticEmbeddings) -> tuple[list[int], list[int]]:
    """Downstream and upstream ids of the tokens of both vocabularies that have a vector."""
    source = multilingual_tokenizer().ids
    shared = [entry for entry in embeddings.tokenizer.ids if entry in source]
    remaining = [entry for entry in shared if embeddings.known[embeddings.tokenizer.ids[entry]]]
    return [embeddings.tokenizer.ids[entry] for entry in remaining], [source[entry] for entry in remaining]


def space_of(embeddings: StaticEmbeddings, entries: Sequence[Entry]) -> StaticSpace:
    tokens, origins = seen_pairs(embeddings)
    rows = [embeddings.tokenizer.ids[entry] for entry in entries]
    return StaticSpace(
        embeddings.vectors[rows], embeddings.vectors[tokens], torch.tensor(origins, dtype=torch.long), embeddings
    )


def untied_decoder() -> Side:
    """Three tables of their own over the multilingual vocabulary."""
    model = mbart()
    config = type(model.config)(**{**model.config.to_dict(), "tie_word_embeddings": False})
    torch.manual_seed(2)
    untied = type(model)(config)
    output_bias(untied).normal_()
    return side(untied, "decoder")


def request(upstream: Side, entries: Sequence[Entry], static: Path | None = None, others: int = 0) -> InitialiserInputs:
    return InitialiserInputs(upstream, multilingual_tokenizer(), entries, others, 0.5, 3, 5, None, static)


def all_tables(upstream: Side) -> Tensor:
    """Input, output and bias, concatenated [V, 2d + 1]."""
    assert upstream.output is not None
    assert upstream.bias is not None
    return torch.cat([upstream.input.weight, upstream.output.weight, upstream.bias.reshape(-1, 1)], dim=1).detach()
