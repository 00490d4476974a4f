"""Vocabularies that are to be larger than their text supports, told before anything is learnt from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING

from subgraft.pipeline.recipes.corpora import CorpusRecipe
from subgraft.pipeline.recipes.vocabularies import VocabularyRecipe
from subgraft.data.sources.registry import resolve
from subgraft.orchestration.store.step import made_by
from subgraft.data.tasks.pairings import pairing
from subgraft.data.text.corpus import Corpus

if TYPE_CHECKING:
    from subgraft.orchestration.store.step import Step
    from subgraft.orchestration.store.store import Store

# A text of so many characters for each piece supports them: no more of it is looked at.
CHARACTERS_A_PIECE = 60
LONGEST_PIECE = 16  # SentencePiece's own
OTHERS = 300  # bytes, special tokens and language codes, at most


def unsupported(store: Store, steps: Iterable[Step]) -> list[str]:
    """A line for each vocabulary that is to be learnt, and that its text cannot give.

    Nothing of one whose text is neither in the store nor on this machine, or of several sources.
    """
    lines = []
    for step in made_by(VocabularyRecipe, steps):
        size = step.recipe.settings.size
        corpora = [source for role, source in step.inputs.items() if role != "model"]
        alone = len(corpora) == 1 and isinstance(corpora[0].recipe, CorpusRecipe)
        most = _most_pieces(_text(store, step), size) if alone else None
        if most is not None:
            lines.append(
                f"{step.name}: {size:,} pieces are asked for, and its text supports no more than {most:,}: "
                "ask for fewer, or learn from more text"
            )
    return lines


def _most_pieces(lines: Iterable[str], size: int) -> int | None:
    """The most pieces that a text gives: what its words have twice, its characters, and OTHERS; None from `size` on."""
    words: Counter[str] = Counter()
    characters = 0
    for line in lines:
        characters += len(line)
        words.update(line.split())
        if characters > CHARACTERS_A_PIECE * size:
            return None
    once: set[str] = set()
    pieces: set[str] = set(chain.from_iterable(words))
    for word, count in words.items():
        for begin in range(len(word)):
            for end in range(begin + 1, min(len(word), begin + LONGEST_PIECE) + 1):
                piece = word[begin:end]
                # At the beginning of a word it is another piece than inside one.
                piece = f" {piece}" if begin == 0 else piece
                (pieces if count > 1 or piece in once else once).add(piece)
        if len(pieces) + OTHERS >= size:
            return None
    return len(pieces) + OTHERS if words else None


def _text(store: Store, step: Step[VocabularyRecipe]) -> Iterator[str]:
    """The lines that the vocabulary is learnt from, as far as they can be read now."""
    corpus, side = step.input("corpus", CorpusRecipe), step.recipe.side
    if store.find(corpus) is not None:
        text = Corpus.open(store.path(corpus))
        if text.is_pair and not text.monolingual:
            return chain.from_iterable(_of_side(pair, side) for pair in text.pairs("train"))
        return iter(()) if not text.monolingual else text.lines("train", text.text_of("decoder"))
    recipe = corpus.recipe
    source = resolve(recipe.source, recipe.languages, recipe.base, pairing=pairing(recipe.questions))
    if not source.on_disk or recipe.languages is None:
        return iter(())
    return chain.from_iterable(_of_side(cells, side) for cells in source.read("train"))


def _of_side(cells: Iterable[object], side: str) -> list[str]:
    texts = [cell for cell in islice(cells, 2) if isinstance(cell, str)]
    if side == "both" or len(texts) < 2:
        return texts
    return [texts[0] if side == "source" else texts[1]]
