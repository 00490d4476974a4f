"""Text and a model of the other direction → Corpus of pairs: the text as the target of its translation by that model.

Sennrich, Haddow and Birch (2016); with a tag before every such source, Caswell, Chelba and Grangier (2019).
"""

from __future__ import annotations

from pathlib import Path

from subgraft.data.synthetic_pairs import SPLIT, tagged, write_pairs
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.recipes.corpora import BackTranslatedRecipe
from subgraft.pipeline.stages.chunked_translation import Search, translated_in_chunks
from subgraft.pipeline.stages.stage import Inputs, Summary
from subgraft.training.context import Context
from subgraft.training.setup import is_writer


def run(recipe: BackTranslatedRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    text, back = Corpus.open(inputs["text"]), recipe.languages.reversed
    lines = text.text(SPLIT, recipe.side)
    search = Search(recipe.beam, recipe.max_length_ratio, recipe.batch_size, recipe.seed, recipe.engine)
    made = translated_in_chunks(Bundle.load(inputs["model"]), lines, back, search, context, SPLIT)
    # A model may have no output for a line, and an empty line is not a source.
    pairs = [(source, target) for source, target in zip(made.texts, lines, strict=True) if source.strip()]
    if is_writer():
        identity = {"kind": "back-translated", "text": dict(text.identity), **recipe.model_dump(mode="json")}
        sources = (tagged(source) if recipe.tag else source for source, _ in pairs)
        written = zip(sources, (target for _, target in pairs), strict=True)
        write_pairs({SPLIT: written}, recipe.languages, identity, out)
    return {
        "model": recipe.model,
        "sizes": {SPLIT: len(pairs)},
        "empty": len(lines) - len(pairs),
        "cut_translations": made.cut,
        "translation_seconds": made.seconds,
    }
