"""Vocabulary and corpora of many languages → its capacity for each, on training and held-out text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from subgraft.base import json_io
from subgraft.data.text.corpus import Corpus
from subgraft.pipeline.recipes.allocations import CapacityRecipe
from subgraft.subwords.allocation.capacity import Capacity, capacity
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context, Json

RECORD = "capacity.json"
VOCABULARY = "vocabulary"


def run(recipe: CapacityRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    tokenizer = Tokenizer.load(recipe.place or inputs[VOCABULARY])
    corpora = {language: Corpus.open(place) for language, place in inputs.items() if language != VOCABULARY}
    found: dict[str, dict[str, dict[str, int | float]]] = {}
    for done, (language, corpus) in enumerate(corpora.items(), 1):
        text = corpus.text_of("encoder")
        found[language] = {split: capacity(tokenizer, corpus.lines(split, text)).to_json() for split in corpus.splits}
        context.progress(done, len(corpora), "languages")
    (out / RECORD).write_text(json.dumps({"size": len(tokenizer), "languages": found}) + "\n", encoding="utf-8")
    return {"size": len(tokenizer), "artifacts": [RECORD]}


def read(directory: Path) -> tuple[int, dict[str, dict[str, Capacity]]]:
    """The size of the vocabulary, and its capacity for each language, by split."""
    record = json_io.parse_object((directory / RECORD).read_bytes())
    return record["size"], {
        language: {split: Capacity.from_json(each) for split, each in splits.items()}
        for language, splits in record["languages"].items()
    }
