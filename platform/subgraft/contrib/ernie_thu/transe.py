"""TransE (Bordes et al., NeurIPS 2013): embeddings of a knowledge graph's entities and relations.

A triple (h, r, t) says that the relation r holds between head and tail: h + r is to be near t, and nearer than with
another head or tail in its place.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from subgraft.contrib.ernie_thu.entity_table import EntityTable
from subgraft.contrib.ernie_thu.settings import TransESettings
from subgraft.contrib.ernie_thu.stages import ENTITY_FILES, EntityStage
from subgraft.data.text.reading import read_triples
from subgraft.training.context import Context
from subgraft.training.stage import Summary


@dataclass(frozen=True)
class Triples:
    """A knowledge graph.

    entities, relations: names, sorted.  ids: int64 [n, 3], head, relation and tail of each triple.
    """

    entities: tuple[str, ...]
    relations: tuple[str, ...]
    ids: np.ndarray

    @classmethod
    def read(cls, path: Path) -> Triples:
        """The file's triples, as `read_triples` gives them."""
        rows = read_triples(path)
        entities = tuple(sorted({name for head, _, tail in rows for name in (head, tail)}))
        relations = tuple(sorted({relation for _, relation, _ in rows}))
        by_name, by_relation = ({name: row for row, name in enumerate(names)} for names in (entities, relations))
        ids = [(by_name[head], by_relation[relation], by_name[tail]) for head, relation, tail in rows]
        return cls(entities, relations, np.array(ids, dtype=np.int64))


def distances(entities: Tensor, relations: Tensor, triples: Tensor, norm: int) -> Tensor:
    """|h + r - t| of each triple [n, 3], by the L1 or L2 norm [n]."""
    heads, relation_rows, tails = triples.unbind(dim=1)
    distance: Tensor = torch.linalg.vector_norm(
        entities[heads] + relations[relation_rows] - entities[tails], norm, dim=1
    )
    return distance


def margin_loss(
    entities: Tensor, relations: Tensor, triples: Tensor, corrupted: Tensor, margin: float, norm: int
) -> Tensor:
    """The sum over triples [n, 3] of max(0, margin + distance - distance of the corrupted one) (equation 1)."""
    near, far = (distances(entities, relations, batch, norm) for batch in (triples, corrupted))
    return (margin + near - far).relu().sum()


def corrupt(triples: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Triples [n, 3] with another of `count` entities in the place of the head or the tail (equation 2)."""
    changed, columns = triples.copy(), 2 * rng.integers(0, 2, len(triples))
    rows = np.arange(len(triples))
    # Adding 1 to count - 1, modulo count, always yields another entity.
    changed[rows, columns] = (changed[rows, columns] + rng.integers(1, count, len(triples))) % count
    return changed


def train_transe(
    graph: Triples, settings: TransESettings, seed: int, progress: Callable[[int, int], None] = lambda done, total: None
) -> EntityTable:
    """Embeddings of a graph's entities (algorithm 1), by stochastic gradient descent; the seed decides the result."""
    rng, width = np.random.default_rng(seed), settings.dimensions
    bound = 6 / width**0.5
    entities, relations = (
        normalize(torch.from_numpy(rng.uniform(-bound, bound, (len(names), width)).astype(np.float32)))
        for names in (graph.entities, graph.relations)
    )
    for epoch in range(settings.epochs):
        order = rng.permutation(len(graph.ids))
        for start in range(0, len(order), settings.batch_size):
            batch = graph.ids[order[start : start + settings.batch_size]]
            _update(entities, relations, batch, corrupt(batch, len(graph.entities), rng), settings)
        progress(epoch + 1, settings.epochs)
    return EntityTable(graph.entities, normalize(entities))


def _update(
    entities: Tensor, relations: Tensor, triples: np.ndarray, corrupted: np.ndarray, settings: TransESettings
) -> None:
    """A step of gradient descent on the rows of a batch, in place; all other entities still have norm 1."""
    all_triples = np.concatenate([triples, corrupted])
    rows, positions = np.unique(all_triples[:, ::2], return_inverse=True)
    local = all_triples.copy()
    local[:, ::2] = positions.reshape(-1, 2)
    entity_ids, ids = torch.from_numpy(rows), torch.from_numpy(local)
    entity_rows = normalize(entities[entity_ids]).requires_grad_()
    relation_rows = relations.clone().requires_grad_()
    loss = margin_loss(
        entity_rows, relation_rows, ids[: len(triples)], ids[len(triples) :], settings.margin, settings.norm
    )
    entity_gradient, relation_gradient = torch.autograd.grad(loss, (entity_rows, relation_rows))
    entities[entity_ids] = entity_rows.detach() - settings.learning_rate * entity_gradient
    relations -= settings.learning_rate * relation_gradient


def embed_entities(stage: EntityStage, out: Path, context: Context) -> Summary:
    """Embeddings of a knowledge graph's entities, by TransE, or as they are in the user's folder."""
    path = Path(stage.place)
    if stage.transe is None:
        table = EntityTable.load(path)
        for name in ENTITY_FILES:
            shutil.copyfile(path / name, out / name)
        return {"entities": len(table.names), "dimensions": table.vectors.shape[1]}
    graph = Triples.read(path)
    table = train_transe(
        graph, stage.transe, stage.seed, lambda done, total: context.progress(done, total, "epochs of TransE")
    )
    table.save(out)
    return {
        "entities": len(table.names),
        "dimensions": table.vectors.shape[1],
        "relations": len(graph.relations),
        "triples": len(graph.ids),
    }
