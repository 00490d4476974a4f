"""Corpus → Vocabulary: the subwords of one side of its training text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from subgraft.config.settings_base import TextSide
from subgraft.data.tasks.question_generation import require_marks
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.corpus_views import training_lines, training_texts
from subgraft.data.text.languages import balanced
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.recipes.vocabularies import VocabularyRecipe
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.context import Context, Json


def run(recipe: VocabularyRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    like = load_tokenizers(inputs["model"])["decoder"] if "model" in inputs else None
    corpora = [Corpus.open(inputs[role]) for role in ("corpus", "second") if role in inputs]
    beside = [Corpus.open(inputs["text"])] if "text" in inputs else []
    # What is beside the task's pairs goes with them, which come last.
    together = [[corpus] for corpus in corpora[:-1]] + [[corpora[-1], *beside]]
    texts = [partial(_lines, each, recipe.side, recipe.settings.language_exponent) for each in together]
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
        max_lines=recipe.settings.max_lines,
        min_count=recipe.settings.min_count,
    )
    require_marks(recipe.marks, tokenizer, "upstream.vocabulary")
    tokenizer.save(out)
    return {"size": len(tokenizer), "fingerprint": tokenizer.fingerprint}


def _lines(corpora: Sequence[Corpus], side: TextSide | Literal["both"], exponent: float | None) -> Iterator[str]:
    if side != "both":
        return training_lines(side, *corpora)
    # By field: source and target may be in one language.
    texts = training_texts(*corpora)
    if exponent is None:
        return chain.from_iterable(chain.from_iterable(texts.values()))
    # By number, as the draw has always been.
    opened = {str(at): partial(chain.from_iterable, each) for at, each in enumerate(texts.values())}
    sizes = {str(at): sum(map(len, each)) for at, each in enumerate(texts.values())}
    return balanced(opened, sizes, exponent, sum(sizes.values()))


def _characters(lines: Iterator[str]) -> int:
    return sum(map(len, lines))


def _copies(sizes: Sequence[int]) -> list[int]:
    """How often to repeat each text, so that all are about as large as the largest."""
    return [max(1, round(max(sizes) / max(1, size))) for size in sizes]
