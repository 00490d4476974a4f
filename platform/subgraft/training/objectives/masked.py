"""Masked language modelling: predict hidden tokens from all others (Devlin et al., NAACL 2019, section 3.1).

A text is read as [CLS] x [SEP], a pair as [CLS] a [SEP] b [SEP]. Hidden tokens are sampled again in every epoch, as in
RoBERTa (Liu et al. 2019, section 4.1), unless there are static copies. They may be whole words, phrases or entities
(`hidden_units`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from torch import Tensor, tensor
from transformers import PreTrainedModel

from subgraft.config.objectives import MaskedSettings
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.data.text.encoded import encode
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.next_sentence import next_sentence_parameters, require_next_sentence
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.embedding_view import IGNORED
from subgraft.training.objectives.hidden_units import Units, hidden_units, without_bits
from subgraft.training.objectives.masked_inputs import AROUND as AROUND
from subgraft.training.objectives.masked_inputs import InputText, Whole, hides_units, inputs_of
from subgraft.training.objectives.next_sentence import (
    WEIGHTS,
    NextSentenceBatch,
    NextSentenceLoss,
    PairExample,
    SegmentBatch,
    accuracy_of,
    next_sentence_loss,
)
from subgraft.training.objectives.objective import Body, Examples, HeldOut, Request, States, pad
from subgraft.training.objectives.single_stack import (
    StackBatch,
    StackExample,
    StackLoss,
    StackView,
    collate,
)


class HidesTokens(Protocol):
    """The settings of an objective that also hides tokens, as `masked` does."""

    @property
    def share(self) -> float: ...
    @property
    def masked(self) -> float: ...
    @property
    def random(self) -> float: ...


def masking(settings: HidesTokens) -> MaskedSettings:
    """How another objective hides tokens."""
    return MaskedSettings(share=settings.share, masked=settings.masked, random=settings.random)


class Masking:
    """Hides tokens of texts. The separator within a text is never hidden."""

    def __init__(self, tokenizer: Tokenizer, settings: MaskedSettings) -> None:
        self._settings = settings
        self._begin, self._end = tokenizer.special["bos"], tokenizer.special["eos"]
        self._mask = tokenizer.special["mask"]
        self._ordinary = np.array([i for i in range(len(tokenizer)) if i not in tokenizer.special_ids], dtype=np.int64)

    def whole(self, text: InputText) -> StackExample:
        """A text without hidden tokens."""
        tokens = [self._begin, *text.tokens, self._end]
        labels = [IGNORED] * len(tokens)
        if text.second is None:
            return StackExample(tokens, labels)
        return PairExample(tokens, labels, 1 + text.second, text.follows)

    def text(self, example: StackExample, tokens: list[int]) -> InputText:
        """Other tokens in the place of an example's text, with as many separators."""
        if not isinstance(example, PairExample):
            return InputText(tokens)
        between = example.second - example.tokens.index(self._end)
        return InputText(tokens, tokens.index(self._end) + between, example.follows)

    def __call__(self, text: InputText, rng: np.random.Generator, sizes: np.ndarray | None = None) -> StackExample:
        """The text with the configured share of its tokens hidden, at least one.

        sizes: the number of tokens of each unit that is hidden as a whole [u]; None hides single tokens. All tokens of
        a unit become masks, or random tokens, or stay.
        """
        settings, example = self._settings, self.whole(text)
        places = np.flatnonzero(np.array(text.tokens, dtype=np.int64) != self._end) + 1
        count = min(len(places), max(1, round(settings.share * len(places))))
        if sizes is None or not count:
            chosen = places[rng.permutation(len(places))[:count]]
            draws = rng.random(count)
        else:
            units = hidden_units(sizes, count, rng)
            starts = np.cumsum(sizes) - sizes
            chosen = np.concatenate([places[starts[unit] : starts[unit] + sizes[unit]] for unit in units])
            draws = np.repeat(rng.random(len(units)), sizes[units])
        strangers = rng.choice(self._ordinary, len(chosen))
        for place, draw, stranger in zip(chosen.tolist(), draws.tolist(), strangers.tolist(), strict=True):
            example.labels[place] = example.tokens[place]
            if draw < settings.masked:
                example.tokens[place] = self._mask
            elif draw < settings.masked + settings.random:
                example.tokens[place] = stranger
        return example


class MaskedText:
    """Texts with tokens hidden as a function of (seed, epoch, index), or of the epoch's static copy.

    Args:
        inputs: the texts.
        tokenizer: their vocabulary.
        settings: of the masking.
        seed: of masks and pairs.
        segments: whether the model has token types.
        units: what is hidden as a whole, for texts with bits above their tokens; None hides single tokens.
    """

    def __init__(
        self,
        inputs: Examples[InputText],
        tokenizer: Tokenizer,
        settings: MaskedSettings,
        seed: int,
        segments: bool = False,
        units: Units | None = None,
    ) -> None:
        self.masking = Masking(tokenizer, settings)
        self.settings, self.units = settings, units
        self._inputs, self._seed, self._segments = inputs, seed, segments
        self.padding, self._separator = tokenizer.special["pad"], tokenizer.special["eos"]

    def __len__(self) -> int:
        return len(self._inputs)

    @property
    def lengths(self) -> np.ndarray:
        lengths: np.ndarray = self._inputs.lengths + AROUND
        return lengths

    def text(self, index: int, epoch: int) -> InputText:
        """A text without [CLS] and the last [SEP]."""
        return self._with_bits(index, epoch)[0]

    def example(self, index: int, epoch: int) -> StackExample:
        rng = np.random.default_rng([self._seed, self._copy(epoch), index])
        text, bits = self._with_bits(index, epoch)
        return self.masking(text, rng, None if self.units is None else self.units.sizes(bits, rng))

    def _with_bits(self, index: int, epoch: int) -> tuple[InputText, list[int]]:
        """A text, and the levels of which each of its tokens, without separators, begins a unit."""
        text = self._inputs.example(index, self._copy(epoch))
        if self.units is None:
            return text, []
        tokens, bits = without_bits(text.tokens, self._separator)
        return text._replace(tokens=tokens), bits

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return self.collate([self.example(int(index), epoch) for index in indices])

    def collate(self, examples: Sequence[StackExample]) -> StackBatch:
        batch = collate(examples, self.padding)
        pairs = [example for example in examples if isinstance(example, PairExample)]
        if not pairs:
            return batch
        segmented = (batch.input_ids, batch.attention_mask, batch.labels, pad([example.types for example in pairs], 0))
        if self.settings.predicts_next:
            return NextSentenceBatch(*segmented, tensor([not example.follows for example in pairs]).long())
        return SegmentBatch(*segmented) if self._segments else batch

    def _copy(self, epoch: int) -> int:
        copies = self.settings.static_copies
        return epoch if copies is None else epoch % copies


class MaskedSentences(MaskedText):
    """Sentences, truncated to max_length tokens."""

    def __init__(
        self, lines: Sequence[str], tokenizer: Tokenizer, settings: MaskedSettings, max_length: int, seed: int
    ) -> None:
        sentences = encode(lines, tokenizer).sequences.cut(max_length - AROUND)
        super().__init__(Whole(sentences), tokenizer, settings, seed)


class MaskedView(StackView):
    """The view that trains generators: tokens are hidden after the re-segmentation.

    A masked language model has one embedding matrix for both sides: the one that it predicts by.
    """

    causal = False

    def __init__(self, text: MaskedText) -> None:
        self._text = text

    @property
    def lengths(self) -> np.ndarray:
        return self._text.lengths

    def original(self, index: int, epoch: int) -> StackExample:
        return self._text.masking.whole(self._text.text(index, epoch))

    def body(self, example: StackExample) -> Body:
        return Body(example.tokens[1:-1], 1, AROUND)

    def rebuilt(self, example: StackExample, body: list[int]) -> StackExample:
        masking = self._text.masking
        return masking.whole(masking.text(example, body))

    def corrupted(self, example: StackExample, rng: np.random.Generator) -> StackExample:
        masking = self._text.masking
        return masking(masking.text(example, example.tokens[1:-1]), rng)

    def collate(self, examples: Sequence[StackExample]) -> StackBatch:
        return self._text.collate(examples)

    @property
    def sequence_weights(self) -> Mapping[str, float]:
        return WEIGHTS if self._text.settings.predicts_next else {}

    def sequence_losses(self, model: PreTrainedModel, states: States, batch: StackBatch) -> dict[str, Tensor]:
        return next_sentence_loss(model, states, batch) if isinstance(batch, NextSentenceBatch) else {}


class MaskedObjective:
    """Masked language modelling of the text of each language; the last weights are selected.

    held_out: dev text of the same form, on which the accuracy of predicted next sentences is measured.
    """

    select: str | None = None
    lower_is_better = False

    def __init__(
        self, bundle: Bundle, sentences: MaskedText, held_out: MaskedText | None, training: TrainingSettings
    ) -> None:
        self._bundle, self._training = bundle, training
        self.sentences, self._held_out = sentences, held_out
        train_next_sentence(bundle.model, sentences.settings.predicts_next)

    @classmethod
    def of(cls, settings: MaskedSettings, request: Request) -> MaskedObjective:
        """Raises UserError for a corpus without the documents that the settings need."""
        judged = settings.predicts_next and "dev" in request.corpus.splits and not isinstance(request, HeldOut)
        held_out = masked_text(settings, HeldOut(**vars(request))) if judged else None
        return cls(request.bundle, masked_text(settings, request), held_out, request.training)

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
        kind = NextSentenceLoss if self.sentences.settings.predicts_next else StackLoss
        return kind(self._bundle.model, label_smoothing)

    def view(self, name: SideName) -> MaskedView:
        del name
        return MaskedView(self.sentences)

    def dev_scores(self) -> Callable[[], dict[str, float]] | None:
        if self._held_out is None:
            return None
        return accuracy_of(self._bundle.model, self._held_out, self._training)


def train_next_sentence(model: PreTrainedModel, predicts_next: bool) -> None:
    """Train the head for next sentences, or leave it as it is. Raises UserError for a model without the head."""
    if predicts_next:
        require_next_sentence(model)
    # A head that is not trained stays as it is, whatever the optimizer does with parameters without gradients.
    for parameter in next_sentence_parameters(model):
        parameter.requires_grad_(predicts_next)


def masked_text(settings: MaskedSettings, request: Request, inputs: Examples[InputText] | None = None) -> MaskedText:
    """The configured text of a corpus. inputs: those of the settings, if they are known."""
    bundle = request.bundle
    segments = family_of(bundle.model).has_segments(bundle.model.config.to_dict())
    units = Units(settings.units) if hides_units(settings, request) else None
    inputs = inputs_of(settings, request) if inputs is None else inputs
    return MaskedText(inputs, bundle.encoder, settings, request.seed, segments, units)
