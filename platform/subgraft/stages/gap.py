"""PretrainedModel and Vocabulary → the subword gap between them on the task's text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from subgraft.models.tokenizers import load_tokenizers
from subgraft.settings.base import Settings
from subgraft.stages.context import Context, Json
from subgraft.text.corpus import Corpus
from subgraft.vocabulary.compare import compare
from subgraft.vocabulary.tokenizer import Tokenizer


class GapRecipe(Settings):
    """words: how many of the most over-segmented words to show."""

    words: int = 20


def run(recipe: GapRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    upstream = load_tokenizers(inputs["model"])["decoder"]
    downstream = Tokenizer.load(inputs["vocabulary"])
    gap = compare(upstream, downstream, Corpus.open(inputs["corpus"]).lines("train", "target"), recipe.words)
    (out / "gap.json").write_text(json.dumps(gap.to_json(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return {"seen": gap.seen, "unseen": gap.unseen, "artifacts": ["gap.json"]}
