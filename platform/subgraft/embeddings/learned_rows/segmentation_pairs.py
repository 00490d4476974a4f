"""The task's sentences in two segmentations, the old and the new vocabulary's, and the positions where they agree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import SequenceFormat
from subgraft.subwords.vocabulary.tokenizer import NO_OFFSET, Tokenizer
from subgraft.training.objectives.compute.seq2seq import Example, Seq2SeqBatch, collate

# Pairs are segmented in chunks, because both segmentations of a large corpus would take gigabytes.
_PAIRS_PER_CHUNK = 2000


@dataclass(frozen=True)
class SegmentationBatch:
    """Sentences in the upstream vocabulary (teacher), and with one side in the new one (student).

    agreeing: int64 [n, 3], columns (sentence, position in the teacher's states, position in the student's): the states
    of the changed side after the same characters.
    """

    teacher: Seq2SeqBatch
    student: Seq2SeqBatch
    agreeing: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {"distillation": len(self.agreeing)}

    @property
    def shape(self) -> tuple[int, int]:
        return max(self.teacher.shape, self.student.shape)

    def to(self, device: torch.device | str) -> SegmentationBatch:
        return SegmentationBatch(self.teacher.to(device), self.student.to(device), self.agreeing.to(device))


@dataclass(frozen=True)
class Sentence:
    """A sentence in two segmentations.

    Attributes:
        other: the side that does not change.
        before: the changed side in the old vocabulary.
        after: the changed side in the new vocabulary.
        agreeing: pairs of positions in both after the same characters.
    """

    other: list[int]
    before: list[int]
    after: list[int]
    agreeing: list[tuple[int, int]]


class SegmentedText(ABC):
    """The sentences that train new tokens' rows, in both segmentations.

    Sentences longer than max_length in either segmentation are left out, because truncated ones would not match.
    Raises UserError if a vocabulary lacks a special token of the model's sequence format.

    Args:
        pairs: the task's training pairs.
        bundle: the upstream model and its vocabularies.
        side: the side whose vocabulary changes.
        target: the new vocabulary.
        languages: languages of both sides.
        training: limits of examples.
        new: ids of the tokens to train.
        per_token: use a sentence only if one of its new tokens occurred in fewer sentences before; None uses all.
        seed: the seed of the order in which sentences are considered.
        additional: further pairs, considered after all others, for tokens that are still too rare.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[str, str]],
        bundle: Bundle,
        side: SideName,
        target: Tokenizer,
        languages: Languages,
        training: TrainingSettings,
        new: Collection[int],
        per_token: int | None = None,
        seed: int = 0,
        additional: Sequence[tuple[str, str]] = (),
    ) -> None:
        self._decoder = side == "decoder"
        changed = replace(bundle, decoder=target) if self._decoder else replace(bundle, encoder=target)
        self._before, self._after = bundle.sequence_format(languages), changed.sequence_format(languages)
        self._paddings = bundle.padding, changed.padding
        self._new = frozenset(new)
        other = bundle.encoder if self._decoder else bundle.decoder
        self._tokenizers = other, bundle.tokenizers[side], target
        self._max_tokens = training.max_length - max(self._before.around, self._after.around)
        order = np.random.default_rng([seed, len(pairs)]).permutation(len(pairs)).tolist()
        if additional:
            additional_order = np.random.default_rng([seed, len(pairs), len(additional)]).permutation(len(additional))
            order += (len(pairs) + additional_order).tolist()
            pairs = [*pairs, *additional]
        occurrences: Counter[int] = Counter()
        selected = dict(sorted(self._select(pairs, order, per_token, occurrences).items()))
        self.tokens = frozenset(occurrences)
        self._sentences = list(selected.values())
        in_characters = training.batch_unit == "characters"
        read = [pairs[p] if in_characters else (s.other, s.before, s.after) for p, s in selected.items()]
        self.lengths = np.array([max(map(len, each)) + 1 for each in read], dtype=np.int64)

    def _select(
        self, pairs: Sequence[tuple[str, str]], order: Sequence[int], per_token: int | None, occurrences: Counter[int]
    ) -> dict[int, Sentence]:
        """The selected sentences by index; `occurrences` counts the sentences of each new token.

        Pairs are read in chunks, so that sentences that are not selected take no memory.
        """
        selected: dict[int, Sentence] = {}
        for start in range(0, len(order), _PAIRS_PER_CHUNK):
            positions = order[start : start + _PAIRS_PER_CHUNK]
            for index, sentence in zip(positions, self._segment([pairs[i] for i in positions]), strict=True):
                tokens = self._new.intersection(sentence.after) if sentence else frozenset()
                if sentence and (per_token is None or any(occurrences[token] < per_token for token in tokens)):
                    occurrences.update(tokens)
                    selected[index] = sentence
        return selected

    def _segment(self, pairs: Sequence[tuple[str, str]]) -> list[Sentence | None]:
        """Each pair as a sentence; None if it is too long or trains nothing."""
        other, source, target = self._tokenizers
        texts = [pair[1] if self._decoder else pair[0] for pair in pairs]
        others = other.encode_batch([pair[0] if self._decoder else pair[1] for pair in pairs])
        sentences: list[Sentence | None] = []
        segmented = zip(others, source.encode_with_ends(texts), target.encode_with_ends(texts), strict=True)
        for unchanged, (before, before_ends), (after, after_ends) in segmented:
            positions = self._compared_positions(len(before), after, agreeing_positions(before_ends, after_ends))
            fits = max(len(unchanged), len(before), len(after)) <= self._max_tokens
            sentences.append(Sentence(unchanged, before, after, positions) if positions and fits else None)
        return sentences

    @abstractmethod
    def _compared_positions(
        self, before: int, after: list[int], agreeing: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The positions at which a sentence is compared; empty if it trains nothing.

        Args:
            before: number of the teacher's tokens of the text.
            after: the student's tokens of the text.
            agreeing: positions in both segmentations after the same characters.
        """

    def _collate_both(self, sentences: Sequence[Sentence]) -> tuple[Seq2SeqBatch, Seq2SeqBatch]:
        """The sentences in both segmentations."""
        before = [self._example(s.other, s.before, self._before) for s in sentences]
        after = [self._example(s.other, s.after, self._after) for s in sentences]
        return collate(before, *self._paddings[0]), collate(after, *self._paddings[1])

    def __len__(self) -> int:
        return len(self._sentences)

    def _example(self, other: list[int], body: list[int], form: SequenceFormat) -> Example:
        return Example.of(*((other, body) if self._decoder else (body, other)), form)


class SegmentationPairs(SegmentedText):
    """Batches of sentences with the positions at which hidden states are compared."""

    def _compared_positions(
        self, before: int, after: list[int], agreeing: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """The positions whose states depend on a new token; empty for a sentence without new tokens."""
        first_new = next((position for position, token in enumerate(after) if token in self._new), None)
        if first_new is None:
            return []
        positions = self._all_positions(before, after, agreeing)
        # A decoder's states before the first new token do not depend on it.
        return (
            [position for position in positions if position[1] >= first_new + self._leading_tokens]
            if self._decoder
            else positions
        )

    @property
    def _leading_tokens(self) -> int:
        """The number of special tokens before a sentence."""
        return 1 + self._before.target_begins if self._decoder else len(self._before.source_beginning)

    def _all_positions(self, before: int, after: list[int], agreeing: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The positions of special tokens, and the last ones of the text's segments."""
        # A decoder does not read the last special token after a sentence.
        trailing = len(self._before.target_ending) - 1 if self._decoder else len(self._before.source_ending)
        positions = agreeing + [(before + i, len(after) + i) for i in range(trailing)]
        return [(i, i) for i in range(self._leading_tokens)] + [
            (teacher + self._leading_tokens, student + self._leading_tokens) for teacher, student in positions
        ]

    def batch(self, indices: np.ndarray, epoch: int) -> SegmentationBatch:
        """The sentences at `indices`, the same in every epoch."""
        del epoch
        sentences = [self._sentences[int(i)] for i in indices]
        agreeing = [(row, *positions) for row, sentence in enumerate(sentences) for positions in sentence.agreeing]
        return SegmentationBatch(
            *self._collate_both(sentences), torch.tensor(agreeing, dtype=torch.long).reshape(-1, 3)
        )


class SegmentPairs(SegmentationPairs):
    """Batches of sentences with the last positions of all segments: the smallest spans that both vocabularies have."""

    def _compared_positions(
        self, before: int, after: list[int], agreeing: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        return self._all_positions(before, after, agreeing) if self._new.intersection(after) else []


def agreeing_positions(first_ends: Sequence[int], second_ends: Sequence[int]) -> list[tuple[int, int]]:
    """Positions in two segmentations whose tokens end after the same character; the last of several."""
    first = {end: position for position, end in enumerate(first_ends) if end != NO_OFFSET}
    second = {end: position for position, end in enumerate(second_ends) if end != NO_OFFSET}
    return [(first[end], position) for end, position in second.items() if end in first]
