"""→ EntityEmbeddings: of a knowledge graph, by TransE, or as they are in the user's folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from subgraft.embeddings.transe import Triples, train_transe
from subgraft.modeling.entities import EntityTable
from subgraft.pipeline.recipes.models import ENTITY_FILES, EntityRecipe
from subgraft.pipeline.stages.stage import Inputs, Summary
from subgraft.training.context import Context


def embed_entities(recipe: EntityRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    del inputs
    place = Path(recipe.place)
    if recipe.transe is None:
        table = EntityTable.load(place)
        for name in ENTITY_FILES:
            shutil.copyfile(place / name, out / name)
        return {"entities": len(table.names), "dimensions": table.vectors.shape[1]}
    graph = Triples.read(place)
    table = train_transe(
        graph, recipe.transe, recipe.seed, lambda done, total: context.progress(done, total, "epochs of TransE")
    )
    table.save(out)
    return {
        "entities": len(table.names),
        "dimensions": table.vectors.shape[1],
        "relations": len(graph.relations),
        "triples": len(graph.ids),
    }
