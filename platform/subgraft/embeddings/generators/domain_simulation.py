"""Generator batches of pseudo-domains: samples of upstream sentences, segmented by a vocabulary of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from subgraft.config.settings_base import VocabularyKind
from subgraft.embeddings.generators.network import TokenPieces, commonness
from subgraft.embeddings.generators.resegment import (
    Resegmentation,
    SimulatedToken,
    Span,
    agreeing_spans,
    unchanged,
)
from subgraft.embeddings.generators.simulation import GeneratorBatch, SimulatedBatches
from subgraft.embeddings.methods.network import NetworkSettings
from subgraft.subwords.vocabulary.alignment import NEW, align
from subgraft.subwords.vocabulary.entry import Mark
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.embedding_view import CompetingTokens
from subgraft.training.objectives.compute.interface import GeneratorView, part_of

# The range of the fraction of the upstream vocabulary's longer subwords that a pseudo-domain removes.
REMOVED = (0.3, 0.9)
# The fraction of pseudo-domains in which the network gets no token frequencies.
UNKNOWN_FREQUENCIES = 0.1


class DomainSimulator(SimulatedBatches):
    """The sentences of one pseudo-domain. Its vocabulary is learned on first use.

    Args:
        view: the objective's view of the side whose tokens are simulated.
        tokenizer: the upstream vocabulary.
        settings: the settings of pseudo-domains.
        examples: int64 [n], indices of the domain's sentences among the view's examples.
        seed: the seed of the simulation, followed by the number of the domain.
        max_positions: the model's limit of positions.
    """

    def __init__(
        self,
        view: GeneratorView[Any],
        tokenizer: Tokenizer,
        settings: NetworkSettings,
        examples: np.ndarray,
        seed: Sequence[int],
        max_positions: int | None = None,
    ) -> None:
        super().__init__(view, seed[0], max_positions)
        self._tokenizer, self._settings = tokenizer, settings
        self._examples, self._seed_sequence = examples, seed

    @property
    def lengths(self) -> np.ndarray:
        lengths: np.ndarray = self._view.lengths[self._examples]
        return lengths

    def batch(self, indices: np.ndarray, epoch: int) -> GeneratorBatch:
        return super().batch(self._examples[indices], epoch)

    @cached_property
    def domain(self) -> PseudoDomain:
        view, rng = self._view, np.random.default_rng([*self._seed_sequence, 0])
        bodies = (view.body(view.original(int(index), 0)).tokens for index in self._examples)
        lines = [text for body in bodies for text, _ in self._texts(body) if text.strip()]
        return PseudoDomain.learn(lines, self._tokenizer, self._settings, rng)

    @cached_property
    def _new_index(self) -> dict[SimulatedToken, int]:
        """The index of each simulated token among the domain's new tokens."""
        entries = (self.domain.vocabulary.entries[token] for token in self.domain.new)
        return {SimulatedToken(entry): index for index, entry in enumerate(entries) if entry is not None}

    def resegment(self, tokens: Sequence[int], rng: np.random.Generator) -> Resegmentation:
        """Segment a sentence by the domain's vocabulary; special tokens, and word parts after them, stay unchanged."""
        del rng
        return _join_runs([self._segment(text, run) for text, run in self._texts(tokens)], len(self._tokenizer))

    def _texts(self, tokens: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
        """A sentence as runs of text with their tokens; special tokens are runs without text."""
        special = self._tokenizer.special_ids
        for is_special, run in groupby(tokens, lambda token: token in special):
            ids = list(run)
            yield "" if is_special else self._tokenizer.decode(ids), ids

    def _segment(self, text: str, tokens: list[int]) -> Resegmentation:
        """Segment a run of text; it stays unchanged if the upstream vocabulary segments its text into other tokens."""
        ((round_trip, original_ends),) = self._tokenizer.encode_with_ends([text])
        if not text or round_trip != tokens:
            return unchanged(tokens)
        domain, size = self.domain, len(self._tokenizer)
        ((segmented, domain_ends),) = domain.vocabulary.encode_with_ends([text])
        new: dict[SimulatedToken, int] = {}
        ids: list[int] = []
        for token in segmented:
            origin = int(domain.origins[token])
            if origin == NEW:
                entry = domain.vocabulary.entries[token]
                if entry is None:  # neither text nor a token of the upstream vocabulary
                    return unchanged(tokens)
                origin = size + new.setdefault(SimulatedToken(entry), len(new))
            ids.append(origin)
        return Resegmentation(ids, list(new), agreeing_spans(original_ends, domain_ends))

    def collect(
        self, results: Sequence[Resegmentation], rng: np.random.Generator
    ) -> tuple[list[list[int]], TokenPieces, CompetingTokens]:
        """The batch's new tokens, and a sample of the domain's other new tokens, weighted to represent all of them."""
        domain, size, index_of = self.domain, len(self._tokenizer), self._new_index
        in_batch = sorted({index_of[token] for result in results for token in result.new})
        remaining = np.setdiff1d(np.arange(len(domain.new)), in_batch)
        sampled = rng.choice(remaining, min(self._settings.negatives, len(remaining)), replace=False)
        numbers = {index: number for number, index in enumerate(in_batch)}
        sentences = [[t if t < size else size + numbers[index_of[r.new[t - size]]] for t in r.tokens] for r in results]
        selected = torch.from_numpy(np.concatenate([np.array(in_batch, dtype=np.int64), sampled]))
        weights = torch.zeros(len(selected))
        if len(sampled):
            weights[len(in_batch) :] = float(np.log(len(remaining) / len(sampled)))
        competes = torch.ones(len(results), len(selected), dtype=torch.bool)
        # Tokens of unchanged sentences take part in the softmax even if the domain's vocabulary lacks them.
        read = torch.tensor(sorted({token for tokens in sentences for token in tokens}), dtype=torch.long)
        absent = domain.absent[~torch.isin(domain.absent, read)]
        spelling = size + torch.arange(len(selected))
        return sentences, domain.pieces.take(selected), CompetingTokens(competes, spelling, absent, weights)


def _join_runs(parts: Sequence[Resegmentation], size: int) -> Resegmentation:
    """Join the runs of a sentence."""
    tokens: list[int] = []
    new: dict[SimulatedToken, int] = {}
    spans: list[Span] = []
    original_position = 0
    for part in parts:
        numbers = [new.setdefault(token, len(new)) for token in part.new]
        position = len(tokens)
        for span in part.spans:
            (a, b), (c, d) = span.original, span.resegmented
            spans.append(Span((a + original_position, b + original_position), (c + position, d + position)))
        tokens += [token if token < size else size + numbers[token - size] for token in part.tokens]
        original_position += part.spans[-1].original[1] if part.spans else 0
    return Resegmentation(tokens, list(new), spans)


@dataclass(frozen=True)
class PseudoDomains:
    """The data of a network's training: batches of several pseudo-domains; each batch has one of them."""

    parts: Sequence[DomainSimulator]

    @classmethod
    def sample(
        cls,
        view: GeneratorView[Any],
        tokenizer: Tokenizer,
        settings: NetworkSettings,
        seed: int,
        max_positions: int | None = None,
    ) -> PseudoDomains:
        """Sample the sentences of each pseudo-domain independently from the view's examples."""
        count = min(settings.sentences, len(view.lengths))
        rngs = [np.random.default_rng([seed, number, 1]) for number in range(settings.domains)]
        return cls(
            [
                DomainSimulator(
                    view,
                    tokenizer,
                    settings,
                    np.sort(rng.choice(len(view.lengths), count, replace=False)),
                    [seed, number],
                    max_positions,
                )
                for number, rng in enumerate(rngs)
            ]
        )

    @property
    def weights(self) -> list[float]:
        return [1.0] * len(self.parts)

    @property
    def from_steps(self) -> None:
        return None

    @cached_property
    def lengths(self) -> np.ndarray:
        return np.concatenate([part.lengths for part in self.parts])

    @cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum([len(part.lengths) for part in self.parts])

    def batch(self, indices: np.ndarray, epoch: int) -> GeneratorBatch:
        number, before = part_of(self._ends, int(indices[0]))
        return self.parts[number].batch(indices - before, epoch)


# A pseudo-domain is a sample of upstream sentences with a vocabulary learned on them, while the upstream vocabulary
# lacks a share of its longer subwords. So its new tokens are as frequent and as long as in a real domain, and have as
# many pieces. Drawing single tokens does not achieve that.

# Vocabularies smaller than this contain hardly more than bytes and characters.
_SMALLEST = 300


@dataclass(frozen=True)
class PseudoDomain:
    """A pseudo-domain with n new tokens.

    Attributes:
        vocabulary: the domain's vocabulary.
        upstream: the upstream vocabulary without the removed subwords, with unchanged ids.
        origins: int64 [size], the upstream id of each token, or NEW.
        knows_commonness: whether the network sees how common new tokens are.
    """

    vocabulary: Tokenizer
    upstream: Tokenizer
    origins: NDArray[np.int64]
    knows_commonness: bool

    @classmethod
    def learn(
        cls, lines: Sequence[str], upstream: Tokenizer, settings: NetworkSettings, rng: np.random.Generator
    ) -> PseudoDomain:
        """Learn the vocabulary and remove upstream subwords, at random. Raises UserError if the lines support none."""
        size = round(len(upstream) * rng.uniform(*settings.vocabulary_size))
        kind: VocabularyKind = "wordpiece"  # for WordPiece models, because it splits at punctuation
        if upstream.mark is not Mark.WORDPIECE:
            kind = "unigram" if rng.random() < 0.75 else "bpe"
        byte_fallback = kind != "wordpiece"
        try:
            vocabulary = learn(lines, kind=kind, size=max(size, _SMALLEST), byte_fallback=byte_fallback)
        except TooLargeError as error:  # than the lines support
            vocabulary = learn(lines, kind=kind, size=error.possible, byte_fallback=byte_fallback)
        longer = [entry for entry in upstream.ids if len(entry.surface) > 1]
        is_removed = rng.random(len(longer)) < rng.uniform(*REMOVED)
        reduced = upstream.without([entry for entry, removed in zip(longer, is_removed, strict=True) if removed])
        knows_commonness = bool(rng.random() >= UNKNOWN_FREQUENCIES)
        return cls(vocabulary, reduced, align(reduced, vocabulary).origins, knows_commonness)

    @cached_property
    def new(self) -> list[int]:
        """Ids of its new tokens in its vocabulary [n]."""
        return [token for token in np.flatnonzero(self.origins == NEW).tolist() if self.vocabulary.entries[token]]

    @cached_property
    def pieces(self) -> TokenPieces:
        """The network's input for the new tokens."""
        entries = [entry for token in self.new if (entry := self.vocabulary.entries[token]) is not None]
        common = commonness(self.vocabulary)[self.new] if self.knows_commonness else None
        return TokenPieces.of(self.upstream, entries, common)

    @cached_property
    def absent(self) -> torch.Tensor:
        """Upstream tokens outside the domain's vocabulary [A]; it always includes special tokens."""
        special = {*self.upstream.special.values(), *self.upstream.languages.values()}
        present = set(self.origins.tolist()) | special
        return torch.tensor([token for token in range(len(self.upstream)) if token not in present], dtype=torch.long)
