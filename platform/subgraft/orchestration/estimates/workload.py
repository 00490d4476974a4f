"""The number of updates of a training step and their tokens, from the text if it is in the store."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings, TrainingSettings
from subgraft.data.text.batches import evenly_spaced, evenly_spaced_places
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.features import features_of
from subgraft.data.text.languages import repeated
from subgraft.modeling.tokenizers import load_tokenizers, with_languages
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.models import CheckpointStage
from subgraft.pipeline.stages.training import FinetuneStage, PretrainStage
from subgraft.pipeline.stages.vocabularies import ImportedVocabularyStage
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.objective import AnyObjective
from subgraft.training.schedule import MixedPlan, batch_plan, planned_steps, steps_of

if TYPE_CHECKING:
    from subgraft.orchestration.store.step import Step
    from subgraft.training.stage import TrainedStage

# Number of evenly spaced pairs from which the tokens per sentence are estimated.
SAMPLE = 1000


class Workload(NamedTuple):
    """The work of a training; None: not known yet.

    Attributes:
        updates: Without early stopping.
        tokens: Of the largest global batch, per side.
    """

    updates: int | None
    tokens: int | None


def workload(store: Store, step: Step[TrainedStage]) -> Workload:
    """Exact if batches are counted in characters or steps are set; else estimated from a sample of the text."""
    work, stop_after = _without_stop(store, step), step.stage.training.stop_after
    return work if stop_after is None else work._replace(updates=min(work.updates or stop_after, stop_after))


def _without_stop(store: Store, step: Step[TrainedStage]) -> Workload:
    """The workload without `stop_after`; for several tasks or directions the sum, as if each had its own batches."""
    stage = step.stage
    if not isinstance(stage, FinetuneStage) or len(stage.parts) == 1:
        return _workload_of_corpus(store, step)
    workloads = [
        _workload_of_corpus(
            store, replace(step, stage=part, inputs={**step.inputs, "corpus": step.inputs[stage.corpus_of(name)]})
        )
        for name, part in stage.parts.items()
    ]
    repetitions = _repetitions(store, step, stage)
    updates = [
        work.updates * count for work, count in zip(workloads, repetitions, strict=True) if work.updates is not None
    ]
    total, max_steps = round(sum(updates)), stage.training.max_steps
    all_known = len(updates) == len(workloads)
    tokens = max((work.tokens for work in workloads if work.tokens is not None), default=None)
    return Workload(min(total, max_steps or total) if all_known else None, tokens)


def _repetitions(store: Store, step: Step[TrainedStage], stage: FinetuneStage) -> list[float]:
    """How often an epoch repeats each pair of a direction; 1 without an exponent, or while a corpus is unknown."""
    corpora = {name: step.inputs[stage.corpus_of(name)] for name in stage.parts}
    if stage.direction_exponent is None or any(store.find(corpus) is None for corpus in corpora.values()):
        return [1.0] * len(corpora)
    sizes = {name: Corpus.open(store.path(corpus)).size("train") for name, corpus in corpora.items()}
    max_examples = stage.training.max_train_examples
    sizes = {name: min(size, max_examples or size) for name, size in sizes.items()}
    sampled = repeated(sizes, stage.direction_exponent)
    return [sampled[name] / max(1, size) for name, size in sizes.items()]


def _workload_of_corpus(store: Store, step: Step[TrainedStage]) -> Workload:
    stage, (role, share) = step.stage, step.stage.epochs_over
    corpus, training = step.inputs[role], stage.training
    if store.find(corpus) is None or stage.new_tokens_only:
        return Workload(None if training.epochs else training.max_steps, _known_tokens(training, None))
    text = Corpus.open(store.path(corpus))
    if text.labelled and stage.trained_on[0].understands:
        return _workload_of_labels(stage, text, known_tokenizer(store, step, "decoder"))
    if isinstance(stage, PretrainStage) and not text.is_pair and not any(o.needs_pairs for o in stage.objectives):
        return _workload_of_texts(stage, text, known_tokenizer(store, step, "decoder"))
    sample = _Sample.of(text, known_tokenizer(store, step, "encoder"), known_tokenizer(store, step, "decoder"))
    if training.epochs is None:
        updates = training.max_steps
    elif training.batch_unit == "characters":
        if text.monolingual or not text.aligned:
            lengths = [len(line) + 1 for line in text.lines("train", text.text_of("decoder"))]
            if any(objective.source == "features" for objective in stage.trained_on):
                lengths = np.maximum(lengths, features_of(text, "train").counts).tolist()
        else:
            lengths = [max(len(source), len(target)) + 1 for source, target in text.pairs("train")]
        pairs = _max_pairs(stage)
        updates = planned_steps(training, np.array(evenly_spaced(lengths, pairs)), stage.seed, share)
    else:
        updates = _updates_by_tokens(stage, sample)
    return Workload(updates, _known_tokens(training, sample))


def _workload_of_texts(stage: PretrainStage, corpus: Corpus, tokenizer: Tokenizer | None) -> Workload:
    """The workload of a pretraining on monolingual texts, whose lines or blocks are sampled by language.

    Estimated as if each text repeated a sample of it.
    """
    training = stage.training
    if tokenizer is None:
        return Workload(None if training.epochs else training.max_steps, _known_tokens(training, None))
    lengths = list[tuple[str, np.ndarray]]()
    for language, lines in corpus.texts("train"):
        sample = list(lines.take(evenly_spaced_places(len(lines), min(SAMPLE, len(lines)))))
        line_lengths = np.resize([len(ids) + 1 for ids in tokenizer.encode_batch(sample)], len(lines))
        lengths.append((language, line_lengths))
    steps = _steps(stage, [_epoch_lengths(lengths, objective, stage) for objective in stage.objectives])
    return Workload(steps, training.largest_batch_size)


def _epoch_lengths(
    lengths: Sequence[tuple[str, np.ndarray]], objective: AnyObjective, stage: PretrainStage
) -> np.ndarray:
    """The lengths of the lines of an epoch, which repeats lines of small languages."""
    # A line that is longer than a block is cut; causal language modelling reads the rest in the next block.
    limit = None if objective.continues else objective.longest_block
    cut = [(name, line_lengths if limit is None else np.minimum(line_lengths, limit)) for name, line_lengths in lengths]
    if stage.language_exponent is None:
        return np.concatenate([line_lengths for _, line_lengths in cut])
    sizes: Counter[str] = Counter()
    for language, line_lengths in cut:
        # An objective samples lines, or blocks, which are filled with tokens.
        sizes[language] += int(line_lengths.sum()) if objective.draws_blocks else len(line_lengths)
    sampled = repeated(sizes, stage.language_exponent)
    return np.concatenate(
        [np.resize(line_lengths, round(len(line_lengths) * sampled[name] / sizes[name])) for name, line_lengths in cut]
    )


def _workload_of_labels(stage: TrainedStage, corpus: Corpus, tokenizer: Tokenizer | None) -> Workload:
    """The workload on labelled examples, as if they repeated a sample of them.

    An example is as long as its texts together; the first is read again with each of several others.
    """
    training, size = stage.training, corpus.size("train")
    if training.epochs is None or tokenizer is None or not size:
        return Workload(None if training.epochs else training.max_steps, _known_tokens(training, None))
    names = [field.name for field in corpus.fields if field.kind == "text"]
    texts = [list(itertools.islice(corpus.lines("train", name), 0, None, max(1, size // SAMPLE))) for name in names]
    tokens = np.array([[len(ids) + 1 for ids in tokenizer.encode_batch(lines)] for lines in texts])
    characters = np.array([[len(line) + 1 for line in lines] for lines in texts])
    repetitions = [max(1, len(names) - 1), *[1] * (len(names) - 1)]
    costs = np.tensordot(repetitions, tokens if training.batch_unit == "tokens" else characters, 1)
    updates = planned_steps(training, np.resize(costs, _max_pairs(stage) or size), stage.seed)
    tokens_per_character = tokens.sum() / characters.sum() if training.batch_unit == "characters" else 1.0
    return Workload(updates, int(training.largest_batch_size * tokens_per_character))


def _max_pairs(stage: TrainedStage) -> int | None:
    """How many of a task's pairs a training uses; all if None."""
    training, of_task = stage.training, stage.epochs_over.role == "corpus"
    return training.max_train_examples if isinstance(training, FinetuneSettings) and of_task else None


def _known_tokens(training: TrainingSettings, sample: _Sample | None) -> int | None:
    if training.batch_unit == "tokens":
        return training.largest_batch_size
    return None if sample is None else int(training.largest_batch_size * sample.tokens_per_character)


def _updates_by_tokens(stage: TrainedStage, sample: _Sample | None) -> int | None:
    """Updates, as if the text repeated the sample."""
    if sample is None:
        return None
    pairs = min(sample.pairs, _max_pairs(stage) or sample.pairs)
    lengths = []
    for objective in stage.trained_on:
        # Without a need for pairs, each side of a pair is a separate example.
        sides = [sample.tokens.max(axis=0)] if objective.needs_pairs else sample.tokens
        lengths.append(np.concatenate([np.resize(side, pairs) for side in sides]))
    return _steps(stage, lengths)


def _steps(stage: TrainedStage, lengths: Sequence[np.ndarray]) -> int:
    """Updates of a training on examples of each objective, from their lengths."""
    training, objectives, seed = stage.training, stage.trained_on, stage.seed
    if len(lengths) == 1:
        return planned_steps(training, lengths[0], seed, stage.epochs_over.share)
    plans = [batch_plan(part_lengths, training, seed) for part_lengths in lengths]
    weights, from_steps = zip(*((objective.weight, objective.from_step) for objective in objectives), strict=True)
    return steps_of(MixedPlan(plans, weights, seed, from_steps), training)


class _Sample(NamedTuple):
    """A sample of a corpus.

    Attributes:
        pairs: Number of pairs of the complete text.
        tokens, characters: Lengths of the sampled pairs [sides, n], with the end of sentence.
    """

    pairs: int
    tokens: np.ndarray
    characters: np.ndarray

    @classmethod
    def of(cls, corpus: Corpus, source: Tokenizer | None, target: Tokenizer | None) -> _Sample | None:
        """None without vocabularies or sentences, and for texts that are not parallel."""
        if source is None or target is None or not corpus.is_pair or not corpus.size("train"):
            return None
        size = corpus.size("train")
        examples = corpus.lines("train", "source") if corpus.monolingual else corpus.pairs("train")
        sampled = itertools.islice(examples, 0, None, max(1, size // SAMPLE))
        sides = [list(sampled)] if corpus.monolingual else [list(side) for side in zip(*sampled, strict=True)]
        tokens = [
            [len(ids) + 1 for ids in tokenizer.encode_batch(side)]
            for tokenizer, side in zip((target,) if corpus.monolingual else (source, target), sides, strict=True)
        ]
        return cls(size, np.array(tokens), np.array([[len(text) + 1 for text in side] for side in sides]))

    @property
    def tokens_per_character(self) -> float:
        """Of the longer side of a pair, which determines the size of a batch."""
        return float(self.tokens.max(axis=0).sum() / self.characters.max(axis=0).sum())


def known_tokenizer(store: Store, step: Step, side: SideName) -> Tokenizer | None:
    """The vocabulary of a step's model on a side, if it is known already."""
    own = step.inputs.get(f"vocabulary/{side}") or step.inputs.get(side)
    if own is not None:
        imported = own.stage.place if isinstance(own.stage, ImportedVocabularyStage) else None
        place = store.path(own) if store.find(own) is not None else imported
        return None if place is None else Tokenizer.load(place)
    if side == "encoder" and "reader" in step.inputs:
        return known_tokenizer(store, step.inputs["reader"], side)
    if isinstance(step.stage, CheckpointStage):
        return with_languages(load_tokenizers(step.stage.model), step.stage.new_languages).get(side)
    return known_tokenizer(store, step.inputs["model"], side)
