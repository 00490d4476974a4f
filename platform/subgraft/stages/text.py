"""Sources of text in one language and Corpus → Corpus: text of the task's domain beside its pairs, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.recipes.text import TextRecipe
from subgraft.sources.beside_pairs import build_beside
from subgraft.sources.one_side import side_texts
from subgraft.stages.context import Context, Json
from subgraft.tasks.pairings import pairing
from subgraft.text.corpus import Corpus

# A text that holds more of dev and test than this share of them was probably made of the same files.
HELD_OUT_SHARE = 0.1


def run(recipe: TextRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    pairs, paired = Corpus.open(inputs["corpus"]), pairing(recipe.questions)
    sides = side_texts(recipe.sources, recipe.languages, recipe.base, pairing=paired)
    identity: dict[str, object] = {side: list(found) for side, found in recipe.identities.items()}
    corpus, counts = build_beside(sides, pairs, identity, recipe.cleaning, out, context.progress)
    held_out = sum(pairs.size(split) for split in pairs.splits if split != "train")
    for side, counted in counts.items():
        if counted["held_out"] > HELD_OUT_SHARE * held_out:
            context.warn(
                f"downstream.text.{side} held {counted['held_out']:,} lines of the task's dev and test splits, which "
                f"have {held_out:,}: they are dropped, but see where the text is from"
            )
    told: dict[str, Json] = {side: dict(sorted(counted.items())) for side, counted in counts.items()}
    return {**told, "generated": corpus.generated}
