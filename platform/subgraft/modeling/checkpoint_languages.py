"""Which languages a model is for, where the files beside its weights say so."""

from __future__ import annotations

from pathlib import Path

from subgraft.base.json_io import object_in
from subgraft.config.corpora import Languages


def checkpoint_languages(directory: Path) -> Languages | None:
    """The languages of a model, if its files name them: models made by Subgraft, and published bilingual Marians."""
    recipe = object_in(directory / "record.json").get("recipe")
    recorded = recipe.get("languages") if isinstance(recipe, dict) else None
    if isinstance(recorded, dict) and {"source", "target"} <= recorded.keys():
        return Languages(source=str(recorded["source"]), target=str(recorded["target"]))
    settings = object_in(directory / "tokenizer_config.json")
    pair = str(settings.get("source_lang")), str(settings.get("target_lang"))
    # Of a model of many languages they are only what its tokenizer begins with, or the name of a group.
    single = settings.get("tokenizer_class") in (None, "MarianTokenizer")
    return Languages(source=pair[0], target=pair[1]) if single and all(len(code) == 2 for code in pair) else None
