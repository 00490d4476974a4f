"""What the upstream vocabularies cannot spell of the task's text, reported before anything is trained on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from subgraft.config.settings_base import SideName
from subgraft.orchestration.estimates.workload import known_tokenizer
from subgraft.data.sources.registry import resolve
from subgraft.data.tasks.pairings import pairing
from subgraft.data.text.corpus import Corpus
from subgraft.subwords.vocabulary.spelling import spelling, unspelled_characters
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

if TYPE_CHECKING:
    from subgraft.pipeline.recipes.corpora import CorpusRecipe
    from subgraft.orchestration.store.step import Step
    from subgraft.orchestration.store.store import Store

# So many training pairs, evenly spaced, tell what a vocabulary lacks.
SAMPLE = 2000
SIDES: tuple[SideName, ...] = ("encoder", "decoder")


def unspelled(store: Store, pretrained: Step, corpus: Step[CorpusRecipe]) -> list[str]:
    """A line for each side of the upstream model, a checkpoint or what a pretraining makes.

    Nothing of a vocabulary that is not learnt yet; nothing at all where the task's text is neither in the store nor on
    this machine.
    """
    known = {side: known_tokenizer(store, pretrained, side) for side in SIDES}
    pairs = list(_sample(store, corpus)) if any(known.values()) else []
    columns = list(zip(*pairs, strict=True))
    texts = dict(zip(SIDES if len(columns) > 1 else ("decoder",), columns, strict=True)) if pairs else {}
    return [_line(side, tokenizer, texts[side]) for side, tokenizer in known.items() if tokenizer and side in texts]


def _sample(store: Store, corpus: Step[CorpusRecipe]) -> Iterator[tuple[str, ...]]:
    """Pairs of the training text, cleaned where it is in the store, else as its files have it."""
    if store.find(corpus) is not None:
        text = Corpus.open(store.path(corpus))
        read = zip(text.lines("train", text.text_of("decoder"))) if text.monolingual else text.pairs("train")
        return islice(read, 0, None, max(1, text.size("train") // SAMPLE))
    recipe = corpus.recipe
    source = resolve(recipe.source, recipe.languages, recipe.base, pairing=pairing(recipe.questions))
    if not source.on_disk:
        return iter(())
    return islice(source.read("train"), 0, None, max(1, source.size("train") // SAMPLE))


def _line(side: SideName, tokenizer: Tokenizer, lines: Sequence[str]) -> str:
    found, what = spelling(tokenizer, lines), f"the upstream {side}'s vocabulary"
    if not found.unknown:
        return f"{what} spells all of {len(lines):,} training sentences of the task"
    characters = unspelled_characters(tokenizer, Counter(word for line in lines for word in line.split()))
    return (
        f"{what} cannot spell {found.unknown_share:.1%} of the task's tokens, in {found.with_unknown_share:.1%} of "
        f"{len(lines):,} training sentences" + (f"; it lacks {' '.join(characters)}" if characters else "")
    )
