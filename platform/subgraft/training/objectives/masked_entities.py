"""Masked language modelling of text with entities, and the denoising entity auto-encoder (dEA) of Tsinghua's ERNIE
(Zhang et al., ACL 2019, section 3.4).

The first token of a mention is aligned with its entity. Of some tokens the model reads another entity, or none, and it
predicts the right one among the entities of the text: an entity that is to be found is read nowhere else.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.entity_objectives import MaskedEntitiesSettings
from subgraft.config.settings_base import SideName
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.entities import NO_ENTITY, EntityTable
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.annotated_text import annotated
from subgraft.training.objectives.embedding_view import IGNORED, EmbeddingView
from subgraft.training.objectives.masked import AROUND, MaskedSentences, MaskedView, masking
from subgraft.training.objectives.objective import Request, pad, pad_with_mask
from subgraft.training.objectives.single_stack import StackBatch, StackLoss

# The name of dEA's loss and of its count.
ENTITIES = "entities"
# A span [start, end) in characters, and the entity that it mentions.
Mention = tuple[int, int, int]


def first_tokens(ends: Sequence[int], mentions: Sequence[Mention]) -> dict[int, int]:
    """The entity of the first token of each mention; of several mentions at a token, the longest.

    ends: where each token ends in the text, in characters from 0.
    """
    rising = list(accumulate(ends, max))
    ordered = sorted(mentions, key=lambda mention: (mention[0], mention[1]))
    at = ((bisect_right(rising, start), entity) for start, _, entity in ordered)
    return {place: entity for place, entity in at if place < len(rising)}


@dataclass(frozen=True)
class EntityExample:
    """Tokens, the label predicted from the state of each, or IGNORED, and the same for entities.

    Attributes:
        read: The entity that the model reads at a token, by place.
        wanted: The place in `candidates` of the entity that is predicted of a token, by place.
        candidates: The entities of the text, each once.
    """

    tokens: list[int]
    labels: list[int]
    read: Mapping[int, int]
    wanted: Mapping[int, int]
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


def collate(examples: Sequence[EntityExample], padding: int) -> EntityBatch:
    """Pad examples on the right."""
    inputs = pad_with_mask([example.tokens for example in examples], padding)
    labels = pad([example.labels for example in examples], IGNORED)
    read, wanted = torch.full_like(labels, NO_ENTITY), torch.full_like(labels, IGNORED)
    for row, example in enumerate(examples):
        for target, values in ((read, example.read), (wanted, example.wanted)):
            target[row, list(values)] = torch.tensor(list(values.values()), dtype=torch.long)
    candidates = pad([example.candidates or [NO_ENTITY] for example in examples], NO_ENTITY)
    return EntityBatch(*inputs, labels, read, wanted, candidates)


class EntitySentences:
    """Sentences with their entities; what is hidden is a function of (seed, epoch, index).

    text: the sentences without entities.
    """

    def __init__(
        self,
        text: MaskedSentences,
        mentions: Sequence[Mapping[int, int]],
        settings: MaskedEntitiesSettings,
        count: int,
        seed: int,
    ) -> None:
        """mentions: the entity of each token that has one, of each sentence.  count: the number of all entities."""
        self.text = text
        self._mentions, self._settings, self._count, self._seed = mentions, settings, count, seed

    def __len__(self) -> int:
        return len(self.text)

    @property
    def lengths(self) -> np.ndarray:
        return self.text.lengths

    def example(self, index: int, epoch: int) -> EntityExample:
        hidden = self.text.example(index, epoch)
        longest = len(hidden.tokens) - AROUND
        # After [CLS]; mentions in what is cut off are not read.
        mentions = {place + 1: entity for place, entity in self._mentions[index].items() if place < longest}
        candidates = list(dict.fromkeys(mentions.values()))
        rng = np.random.default_rng([self._seed, epoch, index, 2])
        read = self._corrupted(mentions, rng)
        # A text's only entity would be predicted with certainty.
        wanted = {place: candidates.index(entity) for place, entity in mentions.items()} if len(candidates) > 1 else {}
        return EntityExample(hidden.tokens, hidden.labels, read, wanted, candidates)

    def _corrupted(self, mentions: Mapping[int, int], rng: np.random.Generator) -> dict[int, int]:
        """The entities that the model reads: most as they are, some replaced by another, some left out."""
        settings, read = self._settings, dict[int, int]()
        for place, entity in mentions.items():
            draw, step = rng.random(), int(rng.integers(1, max(2, self._count)))
            if draw < settings.random_entities:
                read[place] = (entity + step) % self._count
            elif draw >= settings.random_entities + settings.hidden_entities:
                read[place] = entity
        return read

    def batch(self, indices: np.ndarray, epoch: int) -> EntityBatch:
        return collate([self.example(int(index), epoch) for index in indices], self.text.padding)


class EntityLoss(StackLoss):
    """The loss of hidden tokens, and that of entities among those of their text (equations 8 and 9)."""

    def __init__(self, model: PreTrainedModel, label_smoothing: float, entity_weight: float) -> None:
        super().__init__(model, label_smoothing)
        self.weights = {"loss": 1.0, ENTITIES: entity_weight}

    def by(self, embedding_view: EmbeddingView, batch: EntityBatch) -> dict[str, Tensor]:
        top = self.states(batch, embedding_view).top
        tokens = embedding_view.cross_entropy(top, batch.labels, self.label_smoothing)
        model: Any = self.model
        predicted = batch.entity_labels != IGNORED
        rows = predicted.nonzero()[:, 0]
        logits = model.entity_logits(top[predicted], batch.candidates[rows])
        entities = cross_entropy(logits, batch.entity_labels[predicted], reduction="sum")
        return {"loss": tokens, ENTITIES: entities}


class MaskedEntitiesObjective:
    """Hidden tokens and entities of the text of each language; the last weights are selected."""

    select: str | None = None
    lowest = False

    def __init__(self, bundle: Bundle, sentences: EntitySentences, entity_weight: float) -> None:
        self._bundle, self.sentences, self._weight = bundle, sentences, entity_weight

    @classmethod
    def of(cls, settings: MaskedEntitiesSettings, request: Request) -> MaskedEntitiesObjective:
        """Raises UserError if the model reads no entities, the corpus names none, or none that the model knows."""
        bundle, table = request.bundle, EntityTable.of(request.bundle.model)
        if not table.names:
            hint = "Give upstream.entities: {triples: FILE} and model.family knowledgeable."
            raise UserError("the model reads no entities", where="upstream.objectives: masked-entities", hint=hint)
        texts = list(annotated(request, "spans", settings.spans))
        lines = [line for text, _ in texts for line in text]
        named = [spans for _, of_text in texts for spans in of_text]
        known = [[(start, end, table.ids[n]) for start, end, n in spans if n in table.ids] for spans in named]
        if not any(known):
            count = len({name for spans in named for _, _, name in spans})
            what = f"none of the {count:,} entities that the corpus names has an embedding"
            raise UserError(what, where="upstream.entities", hint=_difference(named, table))
        tokenizer, longest = bundle.encoder, request.training.max_length
        text = MaskedSentences(lines, tokenizer, masking(settings), longest, request.seed)
        sentences = EntitySentences(text, aligned(lines, known, tokenizer), settings, len(table.names), request.seed)
        return cls(bundle, sentences, settings.entity_weight)

    @property
    def lengths(self) -> np.ndarray:
        return self.sentences.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> EntityBatch:
        return self.sentences.batch(indices, epoch)

    def loss(self, label_smoothing: float) -> EntityLoss:
        return EntityLoss(self._bundle.model, label_smoothing, self._weight)

    def view(self, name: SideName) -> MaskedView:
        """Generators are trained on the text without its entities, which re-segmented tokens have no place for."""
        del name
        return MaskedView(self.sentences.text)

    def dev_scores(self) -> Callable[[], dict[str, float]] | None:
        return None


def _difference(named: Sequence[Sequence[Any]], table: EntityTable) -> str:
    one = next((spans[0][2] for spans in named if spans), None)
    if one is None:
        return "No line of the corpus has a span."
    return f"The corpus names '{one}', the graph '{table.names[0]}': both must use the same names."


def aligned(lines: Sequence[str], mentions: Sequence[Sequence[Mention]], tokenizer: Tokenizer) -> list[dict[int, int]]:
    """The entity of each token that a mention begins with, for each line."""
    result: list[dict[int, int]] = [{} for _ in lines]
    places = [place for place, of_line in enumerate(mentions) if of_line]
    for start in range(0, len(places), _AT_ONCE):
        chunk = places[start : start + _AT_ONCE]
        for place, (_, ends) in zip(chunk, tokenizer.encode_with_ends([lines[at] for at in chunk]), strict=True):
            result[place] = first_tokens(ends, mentions[place])
    return result


_AT_ONCE = 1 << 13
