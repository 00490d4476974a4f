"""Warnings before a run: unknown characters, vocabularies too large for their text, frozen random embeddings, marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.config.entities import ENTITY_TOKEN, HEAD_TOKEN, TAIL_TOKEN
from subgraft.config.initialiser_registry import initialiser_info
from subgraft.config.settings_base import SideName
from subgraft.data.sources.paths import find
from subgraft.data.sources.registry import resolve
from subgraft.data.tasks.question_generation import pairing
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import text_places
from subgraft.experiments.steps.system import SIDES
from subgraft.orchestration.estimates.workload import known_tokenizer
from subgraft.orchestration.store.step import made_by
from subgraft.pipeline.recipes.corpora import CorpusRecipe
from subgraft.pipeline.recipes.vocabularies import VocabularyRecipe
from subgraft.subwords.vocabulary.spelling import spelling, unknown_characters
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

if TYPE_CHECKING:
    from subgraft.config.comparison import Comparison
    from subgraft.orchestration.store.step import Step
    from subgraft.orchestration.store.store import Store
    from subgraft.pipeline.recipes.corpora import CorpusRecipe


# Training pairs, evenly spaced, on which a vocabulary is tested.
SAMPLE = 2000


def unknown_tokens(store: Store, pretrained: Step, corpus: Step[CorpusRecipe]) -> list[str]:
    """A line for each side of the upstream model, a checkpoint or a pretrained model.

    Vocabularies that are not learnt yet have none; there are none if the task's text is not on this machine.
    """
    known = {side: known_tokenizer(store, pretrained, side) for side in SIDES}
    pairs = list(_sample(store, corpus)) if any(known.values()) else []
    columns = list(zip(*pairs, strict=True))
    texts = dict(zip(SIDES if len(columns) > 1 else ("decoder",), columns, strict=True)) if pairs else {}
    return [_line(side, tokenizer, texts[side]) for side, tokenizer in known.items() if tokenizer and side in texts]


def _sample(store: Store, corpus: Step[CorpusRecipe]) -> Iterator[tuple[str, ...]]:
    """Pairs of the training text, from the store if it is there, else uncleaned from its files."""
    if store.find(corpus) is not None:
        text = Corpus.open(store.path(corpus))
        read = zip(text.lines("train", text.text_of("decoder"))) if text.monolingual else text.pairs("train")
        return islice(read, 0, None, max(1, text.size("train") // SAMPLE))
    recipe = corpus.recipe
    source = resolve(recipe.source, recipe.languages, recipe.base, pairing=pairing(recipe.questions))
    if not source.on_disk:
        return iter(())
    # A segment's other cells are labels, or its place in a document.
    places = text_places(source.fields)[: len(SIDES)]
    lines = (tuple(cells[at] for at in places) for cells in source.read("train"))
    return islice(lines, 0, None, max(1, source.size("train") // SAMPLE))


def _line(side: SideName, tokenizer: Tokenizer, lines: Sequence[str]) -> str:
    segmentation, what = spelling(tokenizer, lines), f"the upstream {side}'s vocabulary"
    if not segmentation.unknown:
        return f"{what} spells all of {len(lines):,} training sentences of the task"
    characters = unknown_characters(tokenizer, Counter(word for line in lines for word in line.split()))
    return (
        f"{what} cannot spell {segmentation.unknown_share:.1%} of the task's tokens, "
        f"in {segmentation.with_unknown_share:.1%} of {len(lines):,} training sentences"
        + (f"; it lacks {' '.join(characters)}" if characters else "")
    )


# Vocabularies that are larger than their text supports, reported before any is learnt.
#
# A text with this many characters for each piece supports the vocabulary, and is read no further.
CHARACTERS_A_PIECE = 60
LONGEST_PIECE = 16  # SentencePiece's own
OTHERS = 300  # bytes, special tokens and language codes, at most


def unsupported(store: Store, steps: Iterable[Step]) -> list[str]:
    """A line for each vocabulary to be learnt that is larger than its text supports.

    None for a vocabulary whose text is neither in the store nor on this machine, or has several sources.
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
    """An upper bound of a text's pieces: repeated strings in words, characters, and OTHERS; None from `size` on."""
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


# A warning, not an error, for systems whose new rows are random and never trained.


def frozen_random_rows(experiment: Comparison) -> list[str]:
    """A line for each system with frozen embeddings that have randomly initialised rows."""
    return [
        f"system {system.name}: its new rows are drawn at random and stay so, since its finetuning freezes the tables "
        "(train, or embedding_learning_rate: 0): these tokens will never mean anything to the model"
        for system in experiment.systems
        if system.finetuning(experiment.finetune).freezes_embeddings
        and (initialiser_info(system.initialiser).drawn or system.pretraining == "none")
    ]


# A vocabulary that is learnt for a model that reads entities has tokens that mark them; one from elsewhere may not.
_MARKED = {"relation-classification": (HEAD_TOKEN, TAIL_TOKEN), "entity-typing": (ENTITY_TOKEN,)}


def characters_for_marks(experiment: Comparison, base: Path) -> list[str]:
    """A line if the imported vocabulary lacks tokens by which the task marks entities."""
    named, wanted = experiment.upstream.vocabulary_path, _MARKED.get(experiment.task, ())
    if named is None or not experiment.model.reads_entities or not wanted:
        return []
    tokenizer = Tokenizer.load(find(named, base))
    special = {tokenizer.pieces[token] for token in tokenizer.special_ids}
    if not (missing := [token for token in wanted if token not in special]):
        return []
    return [
        f"upstream.vocabulary_path: {named} has no special token {' or '.join(missing)}, so that systems with this "
        "vocabulary mark entities by characters, and systems with the task's own by tokens: add these tokens, or leave "
        "the path out"
    ]
