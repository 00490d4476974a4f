"""ERNIE 3's universal knowledge-text prediction (Sun et al., 2021, section 3.2): a triple and a text that states it.

An example is [CLS] head relation tail [SEP] text [SEP]. To predict a hidden relation the model needs the text; to
predict hidden words of the text it needs the triple.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from subgraft.base.errors import UserError
from subgraft.contrib.ernie3.objective import KnowledgeTextSettings
from subgraft.data.text.encoded import Sequences
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.annotated_text import annotated_texts
from subgraft.training.objectives.compute.embedding_view import IGNORED
from subgraft.training.objectives.compute.interface import ObjectiveInputs
from subgraft.training.objectives.compute.masked import MaskedSentences, MaskedView, Masking, masking_settings
from subgraft.training.objectives.compute.masked_inputs import InputText
from subgraft.training.objectives.compute.single_stack import StackBatch, StackExample, StackObjective, collate

# [CLS] and two [SEP].
AROUND = 3


class StatedTriple(NamedTuple):
    """The tokens of a triple's parts. text: the index of the text that states it."""

    head: list[int]
    relation: list[int]
    tail: list[int]
    text: int


class KnowledgeTexts:
    """Triples with their texts, which are truncated so that both fit into max_length.

    The hidden tokens are a function of (seed, epoch, index).
    """

    def __init__(
        self,
        lines: Sequence[str],
        triples: Sequence[Sequence[Sequence[str]]],
        tokenizer: Tokenizer,
        settings: KnowledgeTextSettings,
        max_length: int,
        seed: int,
    ) -> None:
        """triples: of each line. Raises UserError if there are none, or if one leaves no room for its text."""
        self._settings, self._seed, self.padding = settings, seed, tokenizer.special["pad"]
        self._masking = Masking(tokenizer, masking_settings(settings))
        self._begin, self._end, self._mask = (tokenizer.special[role] for role in ("bos", "eos", "mask"))
        self._texts = Sequences.of(tokenizer.encode_batch(list(lines)))
        indexed = [(tuple(triple), index) for index, of_line in enumerate(triples) for triple in of_line]
        if not indexed:
            raise UserError("no text states a triple", hint="Records have them in a field of kind triples.")
        encoded = tokenizer.encode_batch([part for triple, _ in indexed for part in triple])
        self._stated = [
            StatedTriple(encoded[3 * number], encoded[3 * number + 1], encoded[3 * number + 2], index)
            for number, (_, index) in enumerate(indexed)
        ]
        sizes = np.array([sum(map(len, triple[:3])) for triple in self._stated])
        room = max_length - AROUND - sizes
        if (room < 1).any():
            head, relation, tail = indexed[int(room.argmin())][0]
            message = f"the triple ({head}, {relation}, {tail}) leaves no room for a text in {max_length} tokens"
            raise UserError(message, hint="Give a longer pretrain.max_length.")
        self._rooms = room
        self.lengths: np.ndarray = (
            AROUND + sizes + np.minimum(room, self._texts.lengths[[s.text for s in self._stated]])
        )

    def __len__(self) -> int:
        return len(self._stated)

    def example(self, index: int, epoch: int) -> StackExample:
        rng, stated = np.random.default_rng([self._seed, epoch, index]), self._stated[index]
        text = self._texts[stated.text][: self._rooms[index]]
        before = [self._begin, *stated.head]
        if rng.random() < self._settings.relation_share:
            hidden = [self._mask] * len(stated.relation)
            tokens = [*before, *hidden, *stated.tail, self._end, *text, self._end]
            labels = [IGNORED] * len(tokens)
            labels[len(before) : len(before) + len(hidden)] = stated.relation
            return StackExample(tokens, labels)
        masked = self._masking(InputText(text), rng)
        triple = [*before, *stated.relation, *stated.tail, self._end]
        # The triple replaces the [CLS] of the masked text.
        return StackExample([*triple, *masked.tokens[1:]], [*[IGNORED] * len(triple), *masked.labels[1:]])

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return collate([self.example(int(index), epoch) for index in indices], self.padding)


def predict_from_triples(settings: KnowledgeTextSettings, request: ObjectiveInputs) -> StackObjective:
    """Knowledge-text prediction on each language's texts; generators are trained on masked texts without triples."""
    texts: list[Any] = list(annotated_texts(request, "triples", settings.triples))
    lines = [line for text, _ in texts for line in text]
    triples = [of_line for _, of_text in texts for of_line in of_text]
    tokenizer, longest, seed = request.bundle.encoder, request.training.max_length, request.seed
    examples = KnowledgeTexts(lines, triples, tokenizer, settings, longest, seed)

    def view(*_: object) -> MaskedView:
        return MaskedView(MaskedSentences(lines, tokenizer, masking_settings(settings), longest, seed))

    return StackObjective(request.bundle.model, examples, examples.padding, view)
