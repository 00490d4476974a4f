"""Language model and Corpus → language model whose source is the corpus's classes; what is new is drawn by a seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.conditioning.conditional_model import conditioned
from subgraft.config.conditioning import ConditioningSettings
from subgraft.models.bundle import Bundle
from subgraft.recipes.condition import ConditionRecipe
from subgraft.stages.context import Context, Json
from subgraft.text.classes import class_labels
from subgraft.text.corpus import Corpus


def run(recipe: ConditionRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    bundle, classes = Bundle.load(inputs["model"]), class_labels(Corpus.open(inputs["corpus"])).labels
    settings = ConditioningSettings.of_classes(recipe.variant, classes, recipe.settings)
    model = conditioned(bundle.model, settings, recipe.seed)
    Bundle(model, bundle.encoder, bundle.decoder).save(out)
    new = model.num_parameters() - bundle.model.num_parameters()
    return {"parameters": model.num_parameters(), "new_parameters": new, "classes": list(classes)}
