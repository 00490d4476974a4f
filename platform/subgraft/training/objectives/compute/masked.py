"""Masked language modelling: predicts hidden tokens from all others (Devlin et al., NAACL 2019, section 3.1).

A text is read as [CLS] x [SEP], a pair as [CLS] a [SEP] b [SEP]. Hidden tokens are sampled again in every epoch, as in
RoBERTa (Liu et al. 2019, section 4.1), unless static copies are configured. Complete words, phrases or entities may be
hidden (`hidden_units`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from torch import Tensor, tensor
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.data.text.encoded import encode
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import family_of
from subgraft.modeling.next_sentence import next_sentence_parameters, require_next_sentence
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.hidden_units import Units, hidden_units, without_bits
from subgraft.training.objectives.compute.interface import (
    Body,
    Examples,
    HeldOut,
    LastWeights,
    ObjectiveInputs,
    States,
    pad,
)
from subgraft.training.objectives.compute.masked_inputs import AROUND, InputText, SingleTexts, hides_units, inputs_of
from subgraft.training.objectives.compute.next_sentence import (
    WEIGHTS,
    NextSentenceBatch,
    NextSentenceLoss,
    PairExample,
    SegmentBatch,
    accuracy_of,
    next_sentence_loss,
)
from subgraft.training.objectives.compute.single_stack import (
    StackBatch,
    StackExample,
    StackLoss,
    StackView,
    collate,
)
from subgraft.training.objectives.masked import HidesTokens, MaskedSettings


def masking_settings(settings: HidesTokens) -> MaskedSettings:
    """The settings of `Masking` for another objective."""
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
        """A text that replaces that of an example by other tokens, with the same number of separators."""
        if not isinstance(example, PairExample):
            return InputText(tokens)
        between = example.second - example.tokens.index(self._end)
        return InputText(tokens, tokens.index(self._end) + between, example.follows)

    def __call__(self, text: InputText, rng: np.random.Generator, sizes: np.ndarray | None = None) -> StackExample:
        """Hide the configured share of a text's tokens, at least one.

        Args:
            text: the text.
            rng: the random generator.
            sizes: the number of tokens of each unit [u]; None hides single tokens. All tokens of a hidden unit become
                masks, or random tokens, or stay unchanged.
        """
        settings, example = self._settings, self.whole(text)
        positions = np.flatnonzero(np.array(text.tokens, dtype=np.int64) != self._end) + 1
        count = min(len(positions), max(1, round(settings.share * len(positions))))
        if sizes is None or not count:
            selected = positions[rng.permutation(len(positions))[:count]]
            draws = rng.random(count)
        else:
            units = hidden_units(sizes, count, rng)
            starts = np.cumsum(sizes) - sizes
            selected = np.concatenate([positions[starts[unit] : starts[unit] + sizes[unit]] for unit in units])
            draws = np.repeat(rng.random(len(units)), sizes[units])
        random_tokens = rng.choice(self._ordinary, len(selected))
        for position, draw, random_token in zip(selected.tolist(), draws.tolist(), random_tokens.tolist(), strict=True):
            example.labels[position] = example.tokens[position]
            if draw < settings.masked:
                example.tokens[position] = self._mask
            elif draw < settings.masked + settings.random:
                example.tokens[position] = random_token
        return example


class MaskedText:
    """Texts with tokens hidden as a function of (seed, epoch, index), or of the epoch's static copy.

    Args:
        inputs: the texts.
        tokenizer: their vocabulary.
        settings: the settings of the masking.
        seed: the seed of masks and pairs.
        segments: whether the model has token types.
        units: the units to hide, for texts with bits above their tokens; None hides single tokens.
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
        return self._text_and_bits(index, epoch)[0]

    def example(self, index: int, epoch: int) -> StackExample:
        rng = np.random.default_rng([self._seed, self._copy(epoch), index])
        text, bits = self._text_and_bits(index, epoch)
        return self.masking(text, rng, None if self.units is None else self.units.sizes(bits, rng))

    def _text_and_bits(self, index: int, epoch: int) -> tuple[InputText, list[int]]:
        """A text, and for each token that is not a separator, the bits of the levels at which it starts a unit."""
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
        sentences = encode(lines, tokenizer).sequences.truncate(max_length - AROUND)
        super().__init__(SingleTexts(sentences), tokenizer, settings, seed)


class MaskedView(StackView):
    """The view that trains generators: tokens are hidden after the re-segmentation.

    A masked language model has a single embedding matrix, with which it reads and predicts.
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

    def rebuild(self, example: StackExample, body: list[int]) -> StackExample:
        masking = self._text.masking
        return masking.whole(masking.text(example, body))

    def corrupt(self, example: StackExample, rng: np.random.Generator) -> StackExample:
        masking = self._text.masking
        return masking(masking.text(example, example.tokens[1:-1]), rng)

    def collate(self, examples: Sequence[StackExample]) -> StackBatch:
        return self._text.collate(examples)

    @property
    def sequence_weights(self) -> Mapping[str, float]:
        return WEIGHTS if self._text.settings.predicts_next else {}

    def sequence_losses(self, model: PreTrainedModel, states: States, batch: StackBatch) -> dict[str, Tensor]:
        return next_sentence_loss(model, states, batch) if isinstance(batch, NextSentenceBatch) else {}


class MaskedObjective(LastWeights):
    """Masked language modelling of the text of each language; the last weights are selected.

    held_out: dev text of the same form, on which the accuracy of predicted next sentences is measured.
    """

    def __init__(
        self, bundle: Bundle, sentences: MaskedText, held_out: MaskedText | None, training: TrainingSettings
    ) -> None:
        self._bundle, self._training = bundle, training
        self.sentences, self._held_out = sentences, held_out
        train_next_sentence(bundle.model, sentences.settings.predicts_next)

    @classmethod
    def of(cls, settings: MaskedSettings, request: ObjectiveInputs) -> MaskedObjective:
        """Raises UserError for a corpus without the documents that the settings need."""
        has_dev_text = settings.predicts_next and "dev" in request.corpus.splits and not isinstance(request, HeldOut)
        held_out = masked_text(settings, HeldOut(**vars(request))) if has_dev_text else None
        return cls(request.bundle, masked_text(settings, request), held_out, request.training)

    @property
    def lengths(self) -> np.ndarray:
        return self.sentences.lengths

    def begin(self, step: int) -> None:
        """Switch to the units of the update that follows `step` others."""
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
    """Train the head for next sentences, or freeze it. Raises UserError if a head is needed and missing."""
    if predicts_next:
        require_next_sentence(model)
    # Frozen, the head does not change even if the optimizer updates parameters without gradients.
    for parameter in next_sentence_parameters(model):
        parameter.requires_grad_(predicts_next)


def masked_text(
    settings: MaskedSettings, request: ObjectiveInputs, inputs: Examples[InputText] | None = None
) -> MaskedText:
    """The configured text of a corpus. inputs: the inputs of these settings, if they exist already."""
    bundle = request.bundle
    segments = family_of(bundle.model).has_segments(bundle.model.config.to_dict())
    units = Units(settings.units) if hides_units(settings, request) else None
    inputs = inputs_of(settings, request) if inputs is None else inputs
    return MaskedText(inputs, bundle.encoder, settings, request.seed, segments, units)
