"""Masked language modelling of text with entities, and the denoising entity auto-encoder (dEA) of Tsinghua's ERNIE
(Zhang et al., ACL 2019, section 3.4).

The first token of a mention is aligned with its entity. At some tokens the model reads another entity, or none, and it
predicts the correct one among the entities of the text. Texts are single lines, or pairs of segments, for which it also
predicts whether the second segment follows the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.contrib.ernie_thu.entity_table import EntityTable
from subgraft.contrib.ernie_thu.objective import MaskedEntitiesSettings
from subgraft.data.text.encoded import Sequences, encode
from subgraft.data.text.segments import Text
from subgraft.data.text.units import Mention, first_tokens
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import NO_ENTITY, family_of
from subgraft.modeling.next_sentence import next_sentence_parameters
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.annotated_text import annotations_of
from subgraft.training.objectives.compute.embedding_view import IGNORED, EmbeddingView
from subgraft.training.objectives.compute.interface import (
    Concatenation,
    Examples,
    HeldOut,
    LastWeights,
    ObjectiveInputs,
    pad,
)
from subgraft.training.objectives.compute.masked import (
    MaskedText,
    MaskedView,
    masking_settings,
    train_next_sentence,
)
from subgraft.training.objectives.compute.masked_inputs import AROUND, InputText, SingleTexts, inputs_of_documents
from subgraft.training.objectives.compute.next_sentence import (
    WEIGHTS,
    NextSentenceBatch,
    SegmentBatch,
    accuracy_of,
    next_sentence_loss,
)
from subgraft.training.objectives.compute.single_stack import StackBatch, StackExample, StackLoss
from subgraft.training.objectives.masked import MaskedSettings

_Input = TypeVar("_Input")
_Output = TypeVar("_Output")
# The name of dEA's loss and of its count.
ENTITIES = "entities"


class EntityText(NamedTuple):
    """A text. mentions: the entity of each token that has one, by the token's index."""

    text: InputText
    mentions: Mapping[int, int]


@dataclass(frozen=True)
class NumberedText:
    """Sentences whose tokens are replaced by unique numbers, so that their entities can be looked up after packing.

    Numbers start after the ids of the vocabulary, so that they differ from the separators between segments.

    Attributes:
        sentences: The tokens of the sentences.
        entities: The entity of each token of `sentences.flat`, or NO_ENTITY, int32.
        first: The number of the first token.
    """

    sentences: Sequences
    entities: np.ndarray
    first: int

    @classmethod
    def of(cls, lines: Sequence[str], mentions: Sequence[Sequence[Mention]], tokenizer: Tokenizer) -> NumberedText:
        """Number the tokens of lines. mentions: the mentions in each line."""
        sentences = encode(lines, tokenizer).sequences
        entities = np.full(len(sentences.flat), NO_ENTITY, dtype=np.int32)
        for start, of_line in zip(sentences.starts.tolist(), align_mentions(lines, mentions, tokenizer), strict=True):
            for place, entity in of_line.items():
                entities[start + place] = entity
        return cls(sentences, entities, len(tokenizer))

    @property
    def numbers(self) -> Sequences:
        """The numbers in place of the tokens."""
        return replace(self.sentences, flat=np.arange(self.first, self.first + len(self.entities)))

    def read(self, numbered: InputText) -> EntityText:
        """The tokens and entities of a text of numbers and separators."""
        tokens = np.array(numbered.tokens, dtype=np.int64)
        places = np.flatnonzero(tokens >= self.first)
        numbers = tokens[places] - self.first
        tokens[places] = self.sentences.flat[numbers]
        pairs = zip(places.tolist(), self.entities[numbers].tolist(), strict=True)
        mentions = {place: entity for place, entity in pairs if entity != NO_ENTITY}
        return EntityText(numbered._replace(tokens=tokens.tolist()), mentions)


class ConvertedExamples(Generic[_Input, _Output]):
    """Examples to which a function is applied."""

    def __init__(self, inputs: Examples[_Input], convert: Callable[[_Input], _Output]) -> None:
        self._inputs, self._convert = inputs, convert

    def __len__(self) -> int:
        return len(self._inputs)

    @property
    def lengths(self) -> np.ndarray:
        return self._inputs.lengths

    def example(self, index: int, epoch: int) -> _Output:
        return self._convert(self._inputs.example(index, epoch))


@dataclass(frozen=True)
class EntityExample:
    """A text with hidden tokens, and its entities.

    Attributes:
        text: The text, whose labels are the hidden tokens.
        read: The entity that the model reads at a token, by the token's index.
        targets: The index in `candidates` of the entity to predict at a token, by the token's index.
        candidates: The distinct entities of the text.
    """

    text: StackExample
    read: Mapping[int, int]
    targets: Mapping[int, int]
    candidates: Sequence[int]


@dataclass(frozen=True)
class EntityBatch(StackBatch):
    """A batch of text with entities.

    entity_ids: the entity read at each token [B, T], or NO_ENTITY.  entity_labels: the candidate that is predicted of
    each token [B, T], or IGNORED.  candidates: the entities of each text [B, C], padded with NO_ENTITY.
    """

    entity_ids: Tensor
    entity_labels: Tensor
    candidates: Tensor

    @property
    def inputs(self) -> dict[str, Tensor]:
        return {**super().inputs, "entity_ids": self.entity_ids}

    @property
    def counts(self) -> dict[str, int]:
        return {**super().counts, ENTITIES: int((self.entity_labels != IGNORED).sum())}


@dataclass(frozen=True)
class EntitySegmentBatch(EntityBatch, SegmentBatch):
    """A batch of two segments with entities."""


@dataclass(frozen=True)
class EntityPairBatch(EntityBatch, NextSentenceBatch):
    """A batch of two segments with entities, for which the relation of the segments is also predicted."""


_WITH_ENTITIES: Mapping[type[StackBatch], Callable[..., EntityBatch]] = {
    StackBatch: EntityBatch,
    SegmentBatch: EntitySegmentBatch,
    NextSentenceBatch: EntityPairBatch,
}


def with_entities(batch: StackBatch, examples: Sequence[EntityExample]) -> EntityBatch:
    """A batch of the texts of examples with their entities."""
    read, targets = torch.full_like(batch.labels, NO_ENTITY), torch.full_like(batch.labels, IGNORED)
    for row, example in enumerate(examples):
        for target, values in ((read, example.read), (targets, example.targets)):
            target[row, list(values)] = torch.tensor(list(values.values()), dtype=torch.long)
    candidates = pad([example.candidates or [NO_ENTITY] for example in examples], NO_ENTITY)
    return _WITH_ENTITIES[type(batch)](*vars(batch).values(), read, targets, candidates)


class EntitySentences:
    """Texts with their entities. The hidden tokens and entities are a function of (seed, epoch, index).

    text: the texts without entities.
    """

    def __init__(
        self,
        inputs: Examples[EntityText],
        tokenizer: Tokenizer,
        settings: MaskedEntitiesSettings,
        count: int,
        seed: int,
        segments: bool = True,
    ) -> None:
        """count: the number of all entities.  segments: whether the model has token types."""
        self.text = MaskedText(
            ConvertedExamples(inputs, lambda each: each.text), tokenizer, masked_settings(settings), seed, segments
        )
        self._inputs, self._settings, self._count, self._seed = inputs, settings, count, seed

    def __len__(self) -> int:
        return len(self.text)

    @property
    def lengths(self) -> np.ndarray:
        return self.text.lengths

    def example(self, index: int, epoch: int) -> EntityExample:
        text = self._inputs.example(index, epoch)
        hidden = self.text.masking(text.text, np.random.default_rng([self._seed, epoch, index]))
        # After [CLS].
        mentions = {place + 1: entity for place, entity in text.mentions.items()}
        candidates = list(dict.fromkeys(mentions.values()))
        rng = np.random.default_rng([self._seed, epoch, index, 2])
        read = self._corrupt_entities(mentions, rng)
        # With a single candidate there is nothing to predict.
        targets = {place: candidates.index(entity) for place, entity in mentions.items()} if len(candidates) > 1 else {}
        return EntityExample(hidden, read, targets, candidates)

    def _corrupt_entities(self, mentions: Mapping[int, int], rng: np.random.Generator) -> dict[int, int]:
        """The entities that the model reads: some are replaced by another, some are left out, the others unchanged."""
        settings, read = self._settings, dict[int, int]()
        for place, entity in mentions.items():
            draw, step = rng.random(), int(rng.integers(1, max(2, self._count)))
            if draw < settings.random_entities:
                read[place] = (entity + step) % self._count
            elif draw >= settings.random_entities + settings.hidden_entities:
                read[place] = entity
        return read

    def batch(self, indices: np.ndarray, epoch: int) -> EntityBatch:
        return self.collate([self.example(int(index), epoch) for index in indices])

    def collate(self, examples: Sequence[EntityExample]) -> EntityBatch:
        return with_entities(self.text.collate([example.text for example in examples]), examples)


def masked_settings(settings: MaskedEntitiesSettings) -> MaskedSettings:
    """The settings of the texts and of their masking."""
    names = ("input", "next_sentence", "short_inputs")
    return masking_settings(settings).model_copy(update={name: getattr(settings, name) for name in names})


class EntityLoss(StackLoss):
    """The losses of hidden tokens, of entities (equations 8 and 9), and of next sentences, whose sum is the loss of
    section 3.4."""

    def __init__(
        self, model: PreTrainedModel, label_smoothing: float, entity_weight: float, predicts_next: bool = False
    ) -> None:
        super().__init__(model, label_smoothing)
        self._predicts_next = predicts_next
        self.weights = {"loss": 1.0, ENTITIES: entity_weight, **(WEIGHTS if predicts_next else {})}

    def used(self) -> Iterable[nn.Parameter]:
        """All parameters, without an untrained head for next sentences."""
        unused = set() if self._predicts_next else {id(each) for each in next_sentence_parameters(self.model)}
        return [parameter for parameter in self.parameters() if id(parameter) not in unused]

    def by(self, embedding_view: EmbeddingView, batch: EntityBatch) -> dict[str, Tensor]:
        states = self.states(batch, embedding_view)
        top = states.top
        tokens = embedding_view.cross_entropy(top, batch.labels, self.label_smoothing)
        model: Any = self.model
        predicted = batch.entity_labels != IGNORED
        rows = predicted.nonzero()[:, 0]
        logits = model.entity_logits(top[predicted], batch.candidates[rows])
        entities = cross_entropy(logits, batch.entity_labels[predicted], reduction="sum")
        following = next_sentence_loss(self.model, states, batch) if isinstance(batch, EntityPairBatch) else {}
        return {"loss": tokens, ENTITIES: entities, **following}


class MaskedEntitiesObjective(LastWeights):
    """Hidden tokens and entities of the text of each language; the last weights are selected.

    held_out: dev text of the same form, on which the accuracy of predicted next sentences is measured.
    """

    def __init__(
        self,
        bundle: Bundle,
        sentences: EntitySentences,
        held_out: EntitySentences | None,
        settings: MaskedEntitiesSettings,
        training: TrainingSettings,
    ) -> None:
        self._bundle, self.sentences, self._held_out = bundle, sentences, held_out
        self._settings, self._training = settings, training
        train_next_sentence(bundle.model, settings.predicts_next)

    @classmethod
    def of(cls, settings: MaskedEntitiesSettings, request: ObjectiveInputs) -> MaskedEntitiesObjective:
        """Raises UserError if the model reads no entities, or if the corpus mentions none of those that it reads."""
        has_dev_text = settings.predicts_next and "dev" in request.corpus.splits and not isinstance(request, HeldOut)
        held_out = _sentences(settings, HeldOut(**vars(request))) if has_dev_text else None
        return cls(request.bundle, _sentences(settings, request), held_out, settings, request.training)

    @property
    def lengths(self) -> np.ndarray:
        return self.sentences.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> EntityBatch:
        return self.sentences.batch(indices, epoch)

    def loss(self, label_smoothing: float) -> EntityLoss:
        settings = self._settings
        return EntityLoss(self._bundle.model, label_smoothing, settings.entity_weight, settings.predicts_next)

    def view(self, name: SideName) -> MaskedView:
        """The text without entities, on which generators are trained: re-segmentation would move the entities."""
        del name
        return MaskedView(self.sentences.text)

    def dev_scores(self) -> Callable[[], dict[str, float]] | None:
        if self._held_out is None:
            return None
        return accuracy_of(self._bundle.model, self._held_out, self._training)


def _sentences(settings: MaskedEntitiesSettings, request: ObjectiveInputs) -> EntitySentences:
    """The texts of a corpus with the mentioned entities that the model reads."""
    model, tokenizer, table = request.bundle.model, request.bundle.encoder, EntityTable.of(request.bundle.model)
    if not table.names:
        hint = "Give upstream.entities: {triples: FILE} and model.family knowledgeable."
        raise UserError("the model reads no entities", where="upstream.objectives: masked-entities", hint=hint)
    texts = list(_texts(settings, request))
    annotations = [annotations_of(request.corpus, lines, "spans", settings.spans) for lines in texts]
    mentions = [
        [[(a, b, table.ids[n]) for a, b, n in spans if n in table.ids] for spans in of_text] for of_text in annotations
    ]
    if not any(map(any, mentions)) and not isinstance(request, HeldOut):
        count = len({name for of_text in annotations for spans in of_text for _, _, name in spans})
        what = f"none of the {count:,} entities that the corpus names has an embedding"
        raise UserError(
            what, where="upstream.entities", hint=_mismatch_hint([s for each in annotations for s in each], table)
        )
    numbered_texts = [NumberedText.of(*each, tokenizer) for each in zip(texts, mentions, strict=True)]
    inputs = zip(_inputs(settings, request, [each.numbers for each in numbered_texts]), numbered_texts, strict=True)
    segments = family_of(model).has_segments(model.config.to_dict())
    inputs_of_all = Concatenation([ConvertedExamples(each, numbers.read) for each, numbers in inputs])
    return EntitySentences(inputs_of_all, tokenizer, settings, len(table.names), request.seed, segments)


def _texts(settings: MaskedEntitiesSettings, request: ObjectiveInputs) -> Iterator[Text]:
    """The text of each language."""
    if settings.needs_documents:
        yield from (text.lines for text in request.documents())
        return
    for _, lines in request.texts():
        assert isinstance(lines, Text)  # a corpus's
        yield lines


def _inputs(
    settings: MaskedEntitiesSettings, request: ObjectiveInputs, numbers: Sequence[Sequences]
) -> Iterable[Examples[InputText]]:
    """The inputs of each text, made of these numbers."""
    if settings.needs_documents:
        return inputs_of_documents(masked_settings(settings), request, numbers)
    return [SingleTexts(each.truncate(request.training.max_length - AROUND)) for each in numbers]


def _mismatch_hint(annotations: Sequence[Sequence[Any]], table: EntityTable) -> str:
    example = next((spans[0][2] for spans in annotations if spans), None)
    if example is None:
        return "No line of the corpus has a span."
    return f"The corpus names '{example}', the graph '{table.names[0]}': both must use the same names."


def align_mentions(
    lines: Sequence[str], mentions: Sequence[Sequence[Mention]], tokenizer: Tokenizer
) -> list[dict[int, int]]:
    """For each line, the entity of the first token of each mention, by the token's index."""
    result: list[dict[int, int]] = [{} for _ in lines]
    annotated = [place for place, of_line in enumerate(mentions) if of_line]
    for start in range(0, len(annotated), _CHUNK_SIZE):
        chunk = annotated[start : start + _CHUNK_SIZE]
        for place, (_, ends) in zip(chunk, tokenizer.encode_with_ends([lines[line] for line in chunk]), strict=True):
            result[place] = first_tokens(ends, mentions[place])
    return result


_CHUNK_SIZE = 1 << 13
