"""Masked language modelling: predict hidden tokens from all others (Devlin et al., NAACL 2019, section 3.1).

A sentence is read as [CLS] x [SEP]. Hidden tokens are sampled again in every epoch. They may be whole words, phrases or
entities (`hidden_units`). There is no next-sentence
prediction, because sentences of a parallel corpus have no next sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from subgraft.config.objectives import MaskedSettings
from subgraft.config.settings_base import SideName
from subgraft.data.text.encoded import encode
from subgraft.modeling.bundle import Bundle
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.embedding_view import IGNORED
from subgraft.training.objectives.hidden_units import Units, hidden_units, units_of
from subgraft.training.objectives.objective import Body, Request
from subgraft.training.objectives.single_stack import StackBatch, StackExample, StackLoss, StackView, collate

# [CLS] and [SEP]
AROUND = 2


class Masking:
    """Hides tokens of sentences."""

    def __init__(self, tokenizer: Tokenizer, settings: MaskedSettings) -> None:
        self._settings = settings
        self._begin, self._end = tokenizer.special["bos"], tokenizer.special["eos"]
        self._mask = tokenizer.special["mask"]
        self._ordinary = np.array([i for i in range(len(tokenizer)) if i not in tokenizer.special_ids], dtype=np.int64)

    def whole(self, body: Sequence[int]) -> StackExample:
        """A sentence without hidden tokens."""
        tokens = [self._begin, *body, self._end]
        return StackExample(tokens, [IGNORED] * len(tokens))

    def __call__(self, body: Sequence[int], rng: np.random.Generator, sizes: np.ndarray | None = None) -> StackExample:
        """The sentence with the configured share of its tokens hidden, at least one.

        sizes: the number of tokens of each unit that is hidden as a whole [u]; None hides single tokens. All tokens of
        a unit become masks, or random tokens, or stay.
        """
        settings, example = self._settings, self.whole(body)
        count = min(len(body), max(1, round(settings.share * len(body))))
        if sizes is None:
            chosen = rng.permutation(len(body))[:count] + 1
            draws = rng.random(count)
        else:
            units = hidden_units(sizes, count, rng)
            starts = np.cumsum(sizes) - sizes + 1
            chosen = np.concatenate([starts[unit] + np.arange(sizes[unit]) for unit in units])
            draws = np.repeat(rng.random(len(units)), sizes[units])
        strangers = rng.choice(self._ordinary, len(chosen))
        for place, draw, stranger in zip(chosen.tolist(), draws.tolist(), strangers.tolist(), strict=True):
            example.labels[place] = example.tokens[place]
            if draw < settings.masked:
                example.tokens[place] = self._mask
            elif draw < settings.masked + settings.random:
                example.tokens[place] = stranger
        return example


class MaskedSentences:
    """Sentences, truncated to max_length tokens, with tokens hidden as a function of (seed, epoch, index)."""

    def __init__(
        self,
        lines: Sequence[str],
        tokenizer: Tokenizer,
        settings: MaskedSettings,
        max_length: int,
        seed: int,
        units: Units | None = None,
    ) -> None:
        """units: of the same lines; None hides single tokens."""
        self.masking = Masking(tokenizer, settings)
        self.units = None if units is None else units.cut(max_length - AROUND)
        self._bodies = encode(lines, tokenizer).sequences.cut(max_length - AROUND)
        self.padding = tokenizer.special["pad"]
        self._seed = seed

    def __len__(self) -> int:
        return len(self._bodies)

    @property
    def lengths(self) -> np.ndarray:
        lengths: np.ndarray = self._bodies.lengths + AROUND
        return lengths

    def body(self, index: int) -> list[int]:
        """A sentence without [CLS] and [SEP]."""
        return self._bodies[index]

    def example(self, index: int, epoch: int) -> StackExample:
        rng = np.random.default_rng([self._seed, epoch, index])
        return self.masking(self._bodies[index], rng, None if self.units is None else self.units.sizes(index, rng))

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return collate([self.example(int(index), epoch) for index in indices], self.padding)


class MaskedView(StackView):
    """The view that trains generators: tokens are hidden after the re-segmentation.

    A masked language model has one embedding matrix for both sides: the one that it predicts by.
    """

    causal = False

    def __init__(self, sentences: MaskedSentences) -> None:
        super().__init__(sentences, sentences.padding)
        self._sentences = sentences

    def original(self, index: int, epoch: int) -> StackExample:
        del epoch
        return self._sentences.masking.whole(self._sentences.body(index))

    def body(self, example: StackExample) -> Body:
        return Body(example.tokens[1:-1], 1, AROUND)

    def rebuilt(self, example: StackExample, body: list[int]) -> StackExample:
        del example
        return self._sentences.masking.whole(body)

    def corrupted(self, example: StackExample, rng: np.random.Generator) -> StackExample:
        return self._sentences.masking(example.tokens[1:-1], rng)


class MaskedObjective:
    """Masked language modelling of the text of each language; the last weights are selected."""

    select: str | None = None
    lowest = False

    def __init__(self, bundle: Bundle, sentences: MaskedSentences) -> None:
        self._bundle = bundle
        self.sentences = sentences

    @classmethod
    def of(cls, settings: MaskedSettings, request: Request) -> MaskedObjective:
        size, limit = settings.sentences_per_document, request.training.max_length
        documents = [text for _, lines in request.texts() for text in _documents(list(lines), size)]
        units = units_of(settings, request)
        sentences = MaskedSentences(documents, request.bundle.encoder, settings, limit, request.seed, units)
        return cls(request.bundle, sentences)

    @property
    def lengths(self) -> np.ndarray:
        return self.sentences.lengths

    def begin(self, step: int) -> None:
        """Hide the units of the stage of the update after `step` others."""
        if self.sentences.units is not None:
            self.sentences.units.begin(step)

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return self.sentences.batch(indices, epoch)

    def loss(self, label_smoothing: float) -> StackLoss:
        return StackLoss(self._bundle.model, label_smoothing)

    def view(self, name: SideName) -> MaskedView:
        del name
        return MaskedView(self.sentences)

    def dev_scores(self) -> Callable[[], dict[str, float]] | None:
        return None


def _documents(lines: Sequence[str], size: int) -> Iterator[str]:
    """`size` single lines and one line of `size` joined ones, in turn."""
    for at in range(0, len(lines), size):
        together = lines[at : at + size]
        if (at // size) % 2:
            yield " ".join(together)
        else:
            yield from together
