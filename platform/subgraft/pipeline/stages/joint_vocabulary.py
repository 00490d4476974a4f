"""Corpora of many languages → Vocabulary: learnt on all of them, sampled by their shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from subgraft.data.text.corpus import Corpus
from subgraft.data.text.languages import balanced
from subgraft.pipeline.recipes.allocations import JointVocabularyRecipe
from subgraft.subwords.allocation.capacity import piece_shares
from subgraft.subwords.allocation.union import union
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.specials import special_tokens
from subgraft.training.context import Context, Json


def run(recipe: JointVocabularyRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    corpora = {language: Corpus.open(place) for language, place in sorted(inputs.items())}
    sizes = {language: corpus.size("train") for language, corpus in corpora.items()}
    texts = {language: partial(_lines, corpus) for language, corpus in corpora.items()}
    total = min(recipe.lines, sum(sizes.values()))
    learn_joint = partial(
        learn,
        kind=recipe.kind,
        byte_fallback=recipe.byte_fallback,
        mask=recipe.mask,
        languages=recipe.codes,
    )

    def sample() -> Iterator[str]:
        return balanced(texts, sizes, recipe.language_exponent, total)

    try:
        tokenizer = learn_joint(sample(), size=recipe.size)
    except TooLargeError as error:
        context.warn(f"the text of all languages together gives {error.possible:,} pieces, not {recipe.size:,}")
        tokenizer = learn_joint(sample(), size=error.possible)
    if recipe.kind == "bpe":
        # As the allocated one is, whose pieces are cut by their probabilities: else that alone makes a difference.
        special = special_tokens(wordpiece=False, mask=recipe.mask, languages=recipe.codes, like=None)
        scores = {"all": piece_shares(tokenizer, sample())}
        tokenizer = union(scores, special, byte_fallback=recipe.byte_fallback)
    tokenizer.save(out)
    return {"size": len(tokenizer), "lines": total}


def _lines(corpus: Corpus) -> Iterator[str]:
    return corpus.lines("train", corpus.text_of("encoder"))
