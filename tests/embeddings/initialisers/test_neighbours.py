from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from subgraft.embeddings.initialisers.static_mixtures import mix_nearest, nearest_weights, upstream_vectors
from toys import multilingual_tokenizer
from vectors import all_tables, drawn, request, space_of, unseen, untied_decoder


def test_weights_are_a_softmax_of_cosine_over_temperature() -> None:
    candidates = torch.tensor([[1.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])
    nearest, weights = nearest_weights(torch.tensor([[2.0, 2.0 * math.sqrt(3)]]), candidates, 2, 0.1)
    assert nearest.tolist() == [[1, 0]]
    odds = math.exp((math.sqrt(3) / 2 - 0.5) / 0.1)
    assert weights[0].tolist() == pytest.approx([odds / (1 + odds), 1 / (1 + odds)], rel=1e-5)


def test_upstream_tokens_are_their_vector_or_the_sum_of_their_pieces() -> None:
    source, embeddings = multilingual_tokenizer(), drawn(6)
    fitted = embeddings.tokenizer
    tokens, vectors = upstream_vectors(source, embeddings)
    by_token = dict(zip(tokens.tolist(), vectors, strict=True))
    composed = 0
    for entry, token in source.ids.items():
        own = fitted.ids.get(entry)
        parts = [own] if own is not None else [i for i in fitted.segment(entry) if embeddings.known[i]]
        composed += own is None and len(parts) > 1
        assert (token in by_token) == bool(parts)
        if parts:
            assert torch.allclose(by_token[token], embeddings.vectors[parts].sum(0), atol=1e-6)
    assert composed > 3


def test_no_candidate_is_nearer_than_those_taken() -> None:
    """Compared by cosine, not by index: upstream tokens of the same pieces lie in the same place."""
    embeddings, entries = drawn(6), unseen()
    unseen_vectors = space_of(embeddings, entries).unseen
    _, vectors = upstream_vectors(multilingual_tokenizer(), embeddings)
    nearest, _ = nearest_weights(unseen_vectors, vectors, 4, 0.1)
    for vector, taken in zip(unseen_vectors.numpy(), nearest.numpy(), strict=True):
        cosines = vectors.numpy() @ vector / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector))
        assert np.allclose(np.sort(cosines)[::-1][:4], cosines[taken], atol=1e-5)
        assert len(set(taken.tolist())) == 4


def test_the_nearest_upstream_tokens_are_mixed_in_all_tables() -> None:
    upstream, embeddings, entries = untied_decoder(), drawn(6), unseen()
    space = space_of(embeddings, entries)
    rows = mix_nearest(request(upstream, entries), space, neighbours=3, temperature=0.2)
    tokens, vectors = upstream_vectors(multilingual_tokenizer(), embeddings)
    nearest, weights = nearest_weights(space.unseen, vectors, 3, 0.2)
    assert rows.output is not None and rows.bias is not None
    mixed = torch.cat([rows.input, rows.output, rows.bias[:, None]], dim=1)
    for i in range(len(entries)):
        assert torch.allclose(mixed[i], weights[i] @ all_tables(upstream)[tokens[nearest[i]]], atol=1e-5)
