"""Language model and Corpus → language model whose source is such as the corpus has; what is new is drawn by a seed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.conditioning.conditional_model import conditioned
from subgraft.errors import UserError
from subgraft.models.bundle import Bundle
from subgraft.models.source_settings import conditioning_settings
from subgraft.recipes.condition import ConditionRecipe
from subgraft.stages.context import Context, Json
from subgraft.text.corpus import Corpus
from subgraft.vocabulary.tokenizer import Tokenizer


def run(recipe: ConditionRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    """Raises UserError where a source that stands before the target leaves it no position."""
    del context
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"])
    reads = Tokenizer.load(inputs["encoder"]) if "encoder" in inputs else bundle.decoder
    settings = conditioning_settings(recipe.variant, recipe.source, recipe.settings, corpus, len(reads))
    made = Bundle(conditioned(bundle.model, settings, recipe.seed), reads, bundle.decoder)
    if made.max_positions < 2:
        hint = "Give a model of more positions, or read less of a source (conditioning.max_length)."
        raise UserError(f"the source takes all {bundle.max_positions} positions of the model", hint=hint)
    made.save(out)
    new = made.model.num_parameters() - bundle.model.num_parameters()
    source = settings.source
    read = {"classes": list(source.classes)} if source.kind == "class" else {"source": source.model_dump(mode="json")}
    return {"parameters": made.model.num_parameters(), "new_parameters": new, **read}
