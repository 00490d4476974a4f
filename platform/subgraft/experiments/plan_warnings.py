"""Warnings before a run: unknown characters, lost text, too large vocabularies, rates of embeddings, marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.config.settings_base import SideName
from subgraft.config.training import TIED_EMBEDDING_RATIO
from subgraft.data.sources.paths import find
from subgraft.data.sources.registry import resolve
from subgraft.data.tasks.question_generation import pairing
from subgraft.data.tasks.registry import LABELLED_TASKS
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.fields import text_places
from subgraft.embeddings.methods.registry import method_spec
from subgraft.experiments.steps.decoding_engine import config_of
from subgraft.experiments.steps.system import SIDES
from subgraft.modeling.families import family_of
from subgraft.orchestration.estimates.workload import known_tokenizer
from subgraft.orchestration.store.step import made_by
from subgraft.pipeline.stages.corpora import CorpusStage
from subgraft.pipeline.stages.models import TransferStage
from subgraft.pipeline.stages.vocabularies import VocabularyStage
from subgraft.subwords.vocabulary.lost_text import lost_text
from subgraft.subwords.vocabulary.spelling import spelling, unknown_characters
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

if TYPE_CHECKING:
    from subgraft.config.experiment.comparison import Comparison
    from subgraft.experiments.steps.inputs import InputSteps
    from subgraft.orchestration.store.step import Step
    from subgraft.orchestration.store.store import Store


# The number of training pairs, evenly spaced, on which a vocabulary is tested.
SAMPLE = 2000


def unknown_tokens(store: Store, pretrained: Step, corpus: Step[CorpusStage]) -> list[str]:
    """A line for each side of the upstream model, whether that is a checkpoint or pretrained here.

    There is none for a vocabulary that is not learnt yet, and none at all if the task's text is not on this machine.
    """
    tokenizers = {side: known_tokenizer(store, pretrained, side) for side in SIDES}
    texts = _texts(store, corpus) if any(tokenizers.values()) else {}
    return [
        _line(side, tokenizer, texts[side]) for side, tokenizer in tokenizers.items() if tokenizer and side in texts
    ]


def lost_lines(store: Store, corpus: Step[CorpusStage], steps: Iterable[Step]) -> list[str]:
    """A line for each vocabulary of a transfer that loses text of the task which the model's own gives back.

    There is none for a vocabulary that is not learnt yet, and none at all if the task's text is not on this machine.
    """
    changes = {
        (side, old.digest, new.digest): (old, new)
        for step in made_by(TransferStage, steps)
        for side in step.stage.sides
        if (old := known_tokenizer(store, step.inputs["model"], side))
        and (new := known_tokenizer(store, step, side))
        and old.digest != new.digest
    }
    texts = _texts(store, corpus) if changes else {}
    losses = [
        lost_text(old, new, texts[side]).in_words(f"a new vocabulary of the {side}")
        for (side, *_), (old, new) in changes.items()
        if side in texts
    ]
    return [loss for loss in losses if loss]


def _texts(store: Store, corpus: Step[CorpusStage]) -> dict[SideName, Sequence[str]]:
    """A sample of the training text of each side; of one text, of the decoder."""
    pairs = list(_sample(store, corpus))
    columns = list(zip(*pairs, strict=True))
    return dict(zip(SIDES if len(columns) > 1 else ("decoder",), columns, strict=True)) if pairs else {}


def _sample(store: Store, corpus: Step[CorpusStage]) -> Iterator[tuple[str, ...]]:
    """Pairs of the training text, from the store if it is there, else uncleaned from its files."""
    if store.find(corpus) is not None:
        text = Corpus.open(store.path(corpus))
        segments = zip(text.lines("train", text.text_of("decoder"))) if text.monolingual else text.pairs("train")
        return islice(segments, 0, None, max(1, text.size("train") // SAMPLE))
    stage = corpus.stage
    source = resolve(stage.source, stage.languages, stage.base, pairing=pairing(stage.questions))
    if not source.on_disk:
        return iter(())
    # A segment's other cells are labels, or its position in a document.
    columns = text_places(source.fields)[: len(SIDES)]
    uncleaned = (tuple(cells[column] for column in columns) for cells in source.read("train"))
    return islice(uncleaned, 0, None, max(1, source.size("train") // SAMPLE))


def _line(side: SideName, tokenizer: Tokenizer, lines: Sequence[str]) -> str:
    segmentation, subject = spelling(tokenizer, lines), f"the upstream {side}'s vocabulary"
    if not segmentation.unknown:
        return f"{subject} spells all of {len(lines):,} training sentences of the task"
    characters = unknown_characters(tokenizer, Counter(word for line in lines for word in line.split()))
    return (
        f"{subject} cannot spell {segmentation.unknown_share:.1%} of the task's tokens, "
        f"in {segmentation.with_unknown_share:.1%} of {len(lines):,} training sentences"
        + (f"; it lacks {' '.join(characters)}" if characters else "")
    )


# Vocabularies that are larger than their text supports, reported before any is learnt.
#
# A text with this many characters per piece supports the vocabulary, so no more of it is read.
CHARACTERS_PER_PIECE = 60
MAX_PIECE_LENGTH = 16  # SentencePiece's default
OTHER_PIECES = 300  # an upper bound of bytes, special tokens and language codes


def oversized_vocabularies(store: Store, steps: Iterable[Step]) -> list[str]:
    """A line for each vocabulary to be learnt that is larger than its text supports.

    None for a vocabulary whose text is neither in the store nor on this machine, or has several sources.
    """
    lines = []
    for step in made_by(VocabularyStage, steps):
        size = step.stage.settings.size
        corpora = [source for role, source in step.inputs.items() if role != "model"]
        has_one_corpus = len(corpora) == 1 and isinstance(corpora[0].stage, CorpusStage)
        max_pieces = _max_pieces(_text(store, step), size) if has_one_corpus else None
        if max_pieces is not None:
            lines.append(
                f"{step.name}: {size:,} pieces are asked for, and its text supports no more than {max_pieces:,}: "
                "ask for fewer, or learn from more text"
            )
    return lines


def _max_pieces(lines: Iterable[str], size: int) -> int | None:
    """An upper bound of a text's pieces: repeated strings in words, characters, and OTHER_PIECES.

    None if it is at least `size`, or if there is no text.
    """
    words: Counter[str] = Counter()
    characters = 0
    for line in lines:
        characters += len(line)
        words.update(line.split())
        if characters > CHARACTERS_PER_PIECE * size:
            return None
    seen_once: set[str] = set()
    pieces: set[str] = set(chain.from_iterable(words))
    for word, count in words.items():
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + MAX_PIECE_LENGTH) + 1):
                piece = word[start:end]
                # The same string is a different piece at the beginning of a word.
                piece = f" {piece}" if start == 0 else piece
                (pieces if count > 1 or piece in seen_once else seen_once).add(piece)
        if len(pieces) + OTHER_PIECES >= size:
            return None
    return len(pieces) + OTHER_PIECES if words else None


def _text(store: Store, step: Step[VocabularyStage]) -> Iterator[str]:
    """The lines that the vocabulary is learnt from, as far as they can be read now."""
    corpus, side = step.input("corpus", CorpusStage), step.stage.side
    if store.find(corpus) is not None:
        text = Corpus.open(store.path(corpus))
        if text.is_pair and not text.monolingual:
            return chain.from_iterable(_of_side(pair, side) for pair in text.pairs("train"))
        return iter(()) if not text.monolingual else text.lines("train", text.text_of("decoder"))
    stage = corpus.stage
    source = resolve(stage.source, stage.languages, stage.base, pairing=pairing(stage.questions))
    if not source.on_disk or stage.languages is None:
        return iter(())
    return chain.from_iterable(_of_side(cells, side) for cells in source.read("train"))


def _of_side(cells: Iterable[object], side: str) -> list[str]:
    texts = [cell for cell in islice(cells, 2) if isinstance(cell, str)]
    if side == "both" or len(texts) < 2:
        return texts
    return [texts[0] if side == "source" else texts[1]]


def frozen_random_rows(experiment: Comparison) -> list[str]:
    """A line for each system with frozen embeddings that have randomly initialised rows."""
    return [
        f"system {system.name}: its new rows are drawn at random and stay so, since its finetuning freezes the tables "
        "(train, or embedding_learning_rate: 0): these tokens will never mean anything to the model"
        for system in experiment.systems
        if system.finetuning(experiment.finetune).freezes_embeddings
        and (method_spec(system.initialiser).random or system.pretraining == "none")
    ]


# From this share of the body's rate on, more is forgotten: docs/measurements/pretrained-language-model.md.
MAX_TIED_RATIO = 0.5


def fast_tied_embeddings(experiment: Comparison, inputs: InputSteps) -> list[str]:
    """A line if systems train a pretrained language model's tied embeddings about as fast as its body."""
    if experiment.upstream.checkpoint is None or experiment.finetuned_on.understands:
        return []
    config = config_of(inputs.checkpoint)
    family = family_of(config)
    if family.sides != ("decoder",) or family.untied(config) == config:
        return []
    fast = []
    for system in experiment.systems:
        settings = system.finetuning(experiment.finetune)
        rate, body = settings.applied_embedding_learning_rate, settings.learning_rate
        if not (system.untie or settings.freezes_embeddings) and (rate is None or rate > MAX_TIED_RATIO * body):
            fast.append(system.name)
    if not fast:
        return []
    slow = TIED_EMBEDDING_RATIO * experiment.finetune.learning_rate
    return [
        f"{', '.join(fast)}: the model's output embeddings are its input embeddings, so that each update moves all of "
        f"them; with three tenths of the body's learning rate a model forgets less of other text: "
        f"finetune.embedding_learning_rate: {slow:g}"
    ]


def characters_for_marks(experiment: Comparison, base: Path) -> list[str]:
    """A line if the imported vocabulary lacks tokens by which the task marks entities.

    One learnt for a model that reads entities has them.
    """
    path, task = experiment.upstream.vocabulary_path, LABELLED_TASKS.get(experiment.task)
    if path is None or not experiment.model.width_of_entities or task is None:
        return []
    tokenizer = Tokenizer.load(find(path, base))
    special = {tokenizer.pieces[token] for token in tokenizer.special_ids}
    if not (missing := [token for token in task.marks if token not in special]):
        return []
    return [
        f"upstream.vocabulary_path: {path} has no special token {' or '.join(missing)}, so that systems with this "
        "vocabulary mark entities by characters, and systems with the task's own by tokens: add these tokens, or leave "
        "the path out"
    ]
