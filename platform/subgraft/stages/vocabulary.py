"""Corpus → Vocabulary: the subwords of one side of its training text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from pydantic import Field

from subgraft.config.base import Settings
from subgraft.config.vocabularies import VocabularySettings
from subgraft.models.tokenizers import load_tokenizers
from subgraft.stages.context import Context, Json
from subgraft.tasks.question_generation import require_marks
from subgraft.text.corpus import Corpus
from subgraft.vocabulary.learn import learn


class VocabularyRecipe(Settings):
    """side: of the corpus, or both for a vocabulary that sides share, which then has a mask token and language codes.

    With an input `model`, that model's special tokens and language codes are taken over. With an input `second`, the
    vocabulary is learnt on the text of two corpora, weighed so; `weighing` is left out of the fingerprint elsewhere.
    marks: text that the vocabulary must be able to spell, as it will read it; left out likewise where there is none.
    """

    side: Literal["source", "target", "both"]
    settings: VocabularySettings
    languages: tuple[str, ...] = ()
    weighing: Literal["as-they-are", "equal"] | None = Field(default=None, exclude_if=lambda given: given is None)
    marks: tuple[str, ...] = Field(default=(), exclude_if=lambda given: not given)


def run(recipe: VocabularyRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    like = load_tokenizers(inputs["model"])["decoder"] if "model" in inputs else None
    texts = [partial(_lines, Corpus.open(inputs[role]), recipe.side) for role in ("corpus", "second") if role in inputs]
    copies = _copies([_characters(text()) for text in texts]) if recipe.weighing == "equal" else [1] * len(texts)
    tokenizer = learn(
        chain.from_iterable(text() for text, times in zip(texts, copies, strict=True) for _ in range(times)),
        kind=recipe.settings.kind,
        size=recipe.settings.size,
        character_coverage=recipe.settings.character_coverage,
        byte_fallback=recipe.settings.byte_fallback,
        mask=bool(recipe.languages),
        languages=recipe.languages,
        like=like,
        min_count=recipe.settings.min_count,
    )
    require_marks(recipe.marks, tokenizer, "upstream.vocabulary")
    tokenizer.save(out)
    return {"size": len(tokenizer), "fingerprint": tokenizer.fingerprint}


def _lines(corpus: Corpus, side: Literal["source", "target", "both"]) -> Iterator[str]:
    sides: tuple[Literal["source", "target"], ...] = (side,) if side != "both" else ("source", "target")
    for each in sides[:1] if corpus.monolingual else sides:
        yield from corpus.lines("train", each)


def _characters(lines: Iterator[str]) -> int:
    return sum(map(len, lines))


def _copies(sizes: Sequence[int]) -> list[int]:
    """How often each text is taken, for all to be about as large as the largest."""
    return [max(1, round(max(sizes) / max(1, size))) for size in sizes]
