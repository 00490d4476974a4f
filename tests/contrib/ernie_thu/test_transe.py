"""TransE: its loss and gradient against a reference, its negatives, and what it learns of a small graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from subgraft.base.errors import UserError
from subgraft.contrib.ernie_thu.settings import TransESettings
from subgraft.contrib.ernie_thu.transe import Triples, corrupt, distances, margin_loss, train_transe


def _graph(tmp_path: Path, *lines: str) -> Triples:
    path = tmp_path / "graph.tsv"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return Triples.read(path)


def _circle(tmp_path: Path, size: int = 20) -> Triples:
    """Places on a circle: the next, and the one after it."""
    names = [f"place {at}" for at in range(size)]
    lines = [f"{names[at]}\tnext\t{names[(at + 1) % size]}" for at in range(size)]
    return _graph(tmp_path, *lines, *(f"{names[at]}\tafter\t{names[(at + 2) % size]}" for at in range(size)))


def _reference(entities: np.ndarray, relations: np.ndarray, triples: np.ndarray, other: np.ndarray, norm: int) -> float:
    """Equation 1 in float64, triple by triple."""
    total = 0.0
    for (head, relation, tail), (another, _, one) in zip(triples, other, strict=True):
        near = np.linalg.norm(entities[head] + relations[relation] - entities[tail], norm)
        far = np.linalg.norm(entities[another] + relations[relation] - entities[one], norm)
        total += max(0.0, 0.7 + float(near) - float(far))
    return total


@pytest.mark.parametrize("norm", [1, 2])
def test_the_loss_and_its_gradient_are_those_of_the_paper(norm: int) -> None:
    rng = np.random.default_rng(4)
    entities, relations = rng.normal(size=(6, 5)), rng.normal(size=(2, 5))
    triples = np.stack([rng.integers(0, 6, 8), rng.integers(0, 2, 8), rng.integers(0, 6, 8)], axis=1)
    other = corrupt(triples, 6, rng)
    tables = [torch.from_numpy(each.copy()).requires_grad_() for each in (entities, relations)]
    loss = margin_loss(tables[0], tables[1], torch.from_numpy(triples), torch.from_numpy(other), 0.7, norm)
    assert loss.item() == pytest.approx(_reference(entities, relations, triples, other, norm), rel=1e-12)
    loss.backward()
    for table, gradient in zip((entities, relations), (each.grad for each in tables), strict=True):
        assert gradient is not None
        for place in np.ndindex(table.shape):
            before, step = table[place], 1e-6
            sides = []
            for change in (step, -step):
                table[place] = before + change
                sides.append(_reference(entities, relations, triples, other, norm))
            table[place] = before
            assert gradient[place].item() == pytest.approx((sides[0] - sides[1]) / (2 * step), abs=1e-5)


def test_a_corrupted_triple_has_one_other_entity() -> None:
    rng, triples = np.random.default_rng(1), np.tile([[2, 0, 3]], (6000, 1))
    other = corrupt(triples, 6, rng)
    changed = other != triples
    assert (changed.sum(axis=1) == 1).all() and not changed[:, 1].any()
    assert chisquare([changed[:, 0].sum(), changed[:, 2].sum()]).pvalue > 1e-3
    heads = np.bincount(other[changed[:, 0], 0], minlength=6)
    assert heads[2] == 0 and chisquare(np.delete(heads, 2)).pvalue > 1e-3


def _mean_rank(graph: Triples, table: torch.Tensor, relations: torch.Tensor) -> float:
    """The mean rank of the right tail among all entities, from 1; chance is (E + 1) / 2."""
    count, ranks = len(graph.entities), []
    for head, relation, tail in graph.ids.tolist():
        triples = torch.tensor([[head, relation, other] for other in range(count)])
        ranks.append(
            int((distances(table, relations, triples, 1) < distances(table, relations, triples[[tail]], 1)).sum()) + 1
        )
    return float(np.mean(ranks))


def test_entities_of_a_graph_become_neighbours_by_its_relations(tmp_path: Path) -> None:
    """A relation's vector is estimated from the embeddings alone: the mean of tail - head over half of its triples."""
    graph = _circle(tmp_path)
    settings = TransESettings(dimensions=16, epochs=300, batch_size=10, learning_rate=0.05)
    table = train_transe(graph, settings, seed=1)
    assert table.names == graph.entities
    torch.testing.assert_close(table.vectors.norm(dim=1), torch.ones(20))

    def rank(vectors: torch.Tensor) -> float:
        apart = vectors[graph.ids[:, 2]] - vectors[graph.ids[:, 0]]
        relations = torch.stack([apart[graph.ids[:, 1] == relation].mean(dim=0) for relation in range(2)])
        return _mean_rank(graph, vectors, relations)

    untrained = train_transe(graph, settings.model_copy(update={"learning_rate": 1e-9}), seed=1)
    assert rank(untrained.vectors) > 7, "chance is 10.5, and the head itself is near"
    assert rank(table.vectors) < 4


def test_the_seed_decides_the_embeddings(tmp_path: Path) -> None:
    graph, settings = _circle(tmp_path), TransESettings(dimensions=4, epochs=3)
    one, again, other = (train_transe(graph, settings, seed).vectors for seed in (1, 1, 2))
    assert torch.equal(one, again) and not torch.equal(one, other)


def test_a_graph_is_read_and_its_mistakes_are_named(tmp_path: Path) -> None:
    graph = _graph(tmp_path, "Oslo\tcapital of\tNorway", "", "Oslo\tcapital of\tNorway", "Bergen\tin\tNorway")
    assert graph.entities == ("Bergen", "Norway", "Oslo") and graph.relations == ("capital of", "in")
    assert graph.ids.tolist() == [[2, 0, 1], [0, 1, 1]]
    for lines, message in (
        (["Oslo\tNorway"], r"graph\.tsv:1: not a triple"),
        (["a\tb\tc", "a\t\tc"], r"graph\.tsv:2: not a triple"),
        ([""], "no triples"),
        (["a\tis\ta"], "all triples are about one entity"),
    ):
        with pytest.raises(UserError, match=message):
            _graph(tmp_path, *lines)
