from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from subgraft.grafting.neighbours import mix_nearest, nearest_weights, upstream_vectors
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
    found = dict(zip(tokens.tolist(), vectors, strict=True))
    composed = 0
    for entry, token in source.ids.items():
        own = fitted.ids.get(entry)
        parts = [own] if own is not None else [i for i in fitted.segment(entry) if embeddings.known[i]]
        composed += own is None and len(parts) > 1
        assert (token in found) == bool(parts)
        if parts:
            assert torch.allclose(found[token], embeddings.vectors[parts].sum(0), atol=1e-6)
    assert composed > 3


def test_the_nearest_upstream_tokens_are_mixed_in_all_tables() -> None:
    upstream, embeddings, entries = untied_decoder(), drawn(6), unseen()
    rows = mix_nearest(request(upstream, entries), space_of(embeddings, entries), neighbours=3, temperature=0.2)
    tokens, vectors = (part.numpy() for part in upstream_vectors(multilingual_tokenizer(), embeddings))
    assert rows.output is not None and rows.bias is not None
    for i, entry in enumerate(entries):
        vector = embeddings.vectors[embeddings.tokenizer.ids[entry]].numpy()
        cosines = vectors @ vector / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector))
        best = np.argsort(-cosines)[:3]
        weights = np.exp(cosines[best] / 0.2) / np.exp(cosines[best] / 0.2).sum()
        expected = torch.from_numpy(weights) @ all_tables(upstream)[tokens[best]]
        found = torch.cat([rows.input[i], rows.output[i], rows.bias[i : i + 1]])
        assert torch.allclose(found, expected.float(), atol=1e-4)
