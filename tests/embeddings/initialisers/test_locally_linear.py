"""Locally linear mapping: weights against a direct solve, and the rows that they make of all tables."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from subgraft.embeddings.initialisers.static_mixtures import RIDGE, local_weights, mix_locally_linear
from toys import multilingual_tokenizer
from vectors import all_tables, drawn, request, seen_pairs, space_of, unseen, untied_decoder

EXACT = 1e-9


def points(count: int, neighbours: int, dimensions: int) -> tuple[torch.Tensor, torch.Tensor]:
    randomness = torch.Generator().manual_seed(3)
    vectors = torch.randn(count, dimensions, generator=randomness)
    return vectors, torch.randn(count, neighbours, dimensions, generator=randomness)


def test_weights_are_those_of_the_constrained_least_squares() -> None:
    """Against the system of Lagrange: no other weights that sum to one come nearer."""
    vectors, neighbours = points(20, 6, 30)
    mixtures = local_weights(vectors, neighbours, EXACT).numpy()
    for vector, around, weights in zip(vectors.double().numpy(), neighbours.double().numpy(), mixtures, strict=True):
        system = np.block([[around @ around.T, np.ones((6, 1))], [np.ones((1, 6)), np.zeros((1, 1))]])
        expected = np.linalg.solve(system, np.append(around @ vector, 1.0))[:6]
        assert np.allclose(weights, expected, atol=1e-6)
    assert np.allclose(mixtures.sum(axis=1), 1, atol=1e-12)


def test_of_many_exact_solutions_the_least_is_taken() -> None:
    """With more neighbours than dimensions every vector is reached; np.linalg.lstsq gives the smallest solution."""
    vectors, neighbours = points(20, 10, 4)
    mixtures = local_weights(vectors, neighbours, EXACT)
    for vector, around, weights in zip(vectors.double().numpy(), neighbours.double().numpy(), mixtures, strict=True):
        system = np.vstack([around.T, np.ones(10)])
        expected = np.linalg.lstsq(system, np.append(vector, 1.0), rcond=None)[0]
        assert np.allclose(weights.numpy(), expected, atol=1e-6)


@pytest.mark.parametrize("dimensions", [4, 30])
def test_a_vector_on_one_of_its_neighbours_is_that_neighbour(dimensions: int) -> None:
    vectors, neighbours = points(5, 6, dimensions)
    neighbours[:, 2] = vectors
    reached = (local_weights(vectors, neighbours, EXACT)[:, None] @ neighbours.double())[:, 0]
    assert torch.allclose(reached, vectors.double(), atol=1e-6)
    if dimensions > 6:  # in few dimensions, others reach it as well
        assert torch.allclose(local_weights(vectors, neighbours, EXACT), torch.eye(6).double()[2], atol=1e-6)


def test_weights_of_neighbours_near_one_another_do_not_cancel_out() -> None:
    vectors, _ = points(20, 1, 30)
    neighbours = vectors[:, None] + 1 + 1e-3 * points(20, 6, 30)[1]
    exact, regularised = (local_weights(vectors, neighbours, ridge) for ridge in (EXACT, RIDGE))
    assert exact.abs().sum(dim=1).min() > 10
    assert regularised.abs().sum(dim=1).max() < 1.1
    assert torch.allclose(regularised.sum(dim=1), torch.ones(20).double())


def test_twins_share_a_weight() -> None:
    same = torch.ones(1, 3, 8)
    assert local_weights(same[:, 0], same, EXACT)[0].tolist() == pytest.approx([1 / 3] * 3)


def test_the_weights_of_the_nearest_seen_tokens_mix_all_tables() -> None:
    upstream, embeddings, entries = untied_decoder(), drawn(20), unseen()
    rows = mix_locally_linear(request(upstream, entries), space_of(embeddings, entries), neighbours=4, ridge=EXACT)
    tokens, origins = seen_pairs(embeddings)
    seen, tables = embeddings.vectors[tokens], all_tables(upstream)[origins]
    assert rows.output is not None and rows.bias is not None
    for i, entry in enumerate(entries):
        vector = embeddings.vectors[embeddings.tokenizer.ids[entry]]
        nearest = torch.cosine_similarity(vector[None], seen).topk(4).indices
        weights = local_weights(vector[None], seen[nearest][None], EXACT)[0].float()
        mixed = torch.cat([rows.input[i], rows.output[i], rows.bias[i : i + 1]])
        assert torch.allclose(mixed, weights @ tables[nearest], atol=1e-5)


def test_a_token_that_lies_on_a_seen_token_gets_that_token_s_row() -> None:
    upstream, embeddings, entries = untied_decoder(), drawn(20), unseen()
    tokens, origins = seen_pairs(embeddings)
    embeddings.vectors[embeddings.tokenizer.ids[entries[0]]] = embeddings.vectors[tokens[3]]
    rows = mix_locally_linear(request(upstream, entries), space_of(embeddings, entries), ridge=EXACT)
    assert torch.allclose(rows.input[0], upstream.input.weight[origins[3]], atol=1e-5)


def test_a_seen_token_that_is_initialised_again_is_not_its_own_neighbour() -> None:
    """Its own vector would give it its old row, whatever it means in the task's text."""
    upstream, embeddings = untied_decoder(), drawn(20)
    source = multilingual_tokenizer()
    seen = [entry for entry in embeddings.tokenizer.ids if entry in source.ids][:3]
    rows = mix_locally_linear(request(upstream, seen), space_of(embeddings, seen), neighbours=2, ridge=EXACT)
    tokens, origins = seen_pairs(embeddings)
    for i, entry in enumerate(seen):
        others = [at for at, origin in enumerate(origins) if origin != source.ids[entry]]
        around = embeddings.vectors[[tokens[at] for at in others]]
        vector = embeddings.vectors[embeddings.tokenizer.ids[entry]]
        nearest = torch.cosine_similarity(vector[None], around).topk(2).indices
        weights = local_weights(vector[None], around[nearest][None], EXACT)[0].float()
        table = upstream.input.weight[[origins[others[at]] for at in nearest.tolist()]]
        assert torch.allclose(rows.input[i], weights @ table, atol=1e-5)
        assert not torch.allclose(rows.input[i], upstream.input.weight[source.ids[entry]], atol=1e-2)
