from __future__ import annotations

import numpy as np
import pytest
import torch

from subgraft.embeddings.initialisers.static_mixtures import (
    matching_pursuit,
    mix_matching_pursuit,
    mix_sparsemax,
    sparsemax,
)
from vectors import all_tables, drawn, request, seen_pairs, space_of, unseen, untied_decoder


@pytest.mark.parametrize("gap", [-2.0, -1.0, -0.4, 0.0, 0.3, 1.0, 1.7])
def test_sparsemax_of_two_scores_has_its_closed_form(gap: float) -> None:
    """Martins and Astudillo 2016, section 2.2: (t, 0) goes to t/2 + 1/2, clipped to [0, 1]."""
    first = min(max(gap / 2 + 0.5, 0.0), 1.0)
    weights = sparsemax(torch.tensor([[gap, 0.0], [gap + 7, 7.0]], dtype=torch.double))
    assert torch.allclose(weights, torch.tensor([first, 1 - first], dtype=torch.double).expand(2, -1), atol=1e-12)


def test_sparsemax_is_the_projection_on_the_simplex() -> None:
    """Against the threshold found by bisection, of which the projection is the part above it."""
    scores = np.random.default_rng(3).normal(size=(20, 30))
    projections = sparsemax(torch.from_numpy(scores)).numpy()
    for row, projected in zip(scores, projections, strict=True):
        low, high = row.min() - 1, row.max()
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(row - middle, 0).sum() > 1 else (low, middle)
        assert np.allclose(projected, np.maximum(row - low, 0), atol=1e-10)
    assert (projections == 0).any()
    assert np.allclose(projections.sum(1), 1)


def test_matching_pursuit_recovers_an_exactly_sparse_combination() -> None:
    randomness = torch.Generator().manual_seed(1)
    dictionary = torch.randn(40, 60, generator=randomness) * torch.linspace(0.1, 9, 40)[:, None]
    true = torch.zeros(2, 40)
    true[0, [3, 17, 30]] = torch.tensor([2.0, -1.5, 0.7])
    true[1, [5, 9, 39]] = torch.tensor([-4.0, 3.0, 1.0])
    chosen, coefficients = matching_pursuit(true @ dictionary, dictionary, 3)
    recovered = torch.zeros(2, 40, dtype=torch.double).scatter(1, chosen, coefficients)
    assert torch.allclose(recovered, true.double(), atol=1e-4)


def test_matching_pursuit_over_orthogonal_vectors_takes_the_largest_parts() -> None:
    target = torch.tensor([[0.1, -5.0, 2.0, 0.0, 3.0]])
    chosen, coefficients = matching_pursuit(target, torch.eye(5), 2)
    assert chosen.tolist() == [[1, 4]]
    assert coefficients[0].tolist() == pytest.approx([-5.0, 3.0])


def test_matching_pursuit_bears_twins_and_small_dictionaries() -> None:
    twins = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    chosen, coefficients = matching_pursuit(torch.tensor([[2.0, 1.0, 0.0]]), twins, 8)
    assert sorted(chosen[0].tolist()) == [0, 1]
    assert coefficients.sum().item() == pytest.approx(2.0)


def test_focus_applies_sparsemax_over_cosines_to_all_tables() -> None:
    upstream, embeddings, entries = untied_decoder(), drawn(6), unseen()
    rows = mix_sparsemax(request(upstream, entries), space_of(embeddings, entries))
    tokens, origins = seen_pairs(embeddings)
    assert rows.output is not None and rows.bias is not None
    for i, entry in enumerate(entries):
        vector = embeddings.vectors[embeddings.tokenizer.ids[entry]]
        cosines = torch.cosine_similarity(vector[None], embeddings.vectors[tokens])
        expected = sparsemax(cosines[None])[0] @ all_tables(upstream)[origins]
        mixed = torch.cat([rows.input[i], rows.output[i], rows.bias[i : i + 1]])
        assert torch.allclose(mixed, expected, atol=1e-5)


def test_matching_pursuit_applies_its_coefficients_to_all_tables() -> None:
    """Vectors made as sums of two seen ones get the sum of those two tokens' rows."""
    upstream, embeddings, entries = untied_decoder(), drawn(80), unseen()[:4]
    tokens, origins = seen_pairs(embeddings)
    expected = []
    for i, entry in enumerate(entries):
        row = embeddings.tokenizer.ids[entry]
        embeddings.vectors[row] = embeddings.vectors[tokens[i]] - 2 * embeddings.vectors[tokens[i + 3]]
        expected.append(all_tables(upstream)[origins[i]] - 2 * all_tables(upstream)[origins[i + 3]])
    rows = mix_matching_pursuit(request(upstream, entries), space_of(embeddings, entries), atoms=2)
    assert rows.output is not None and rows.bias is not None
    mixed = torch.cat([rows.input, rows.output, rows.bias[:, None]], dim=1)
    assert torch.allclose(mixed, torch.stack(expected), atol=1e-4)
