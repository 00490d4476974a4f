"""Dialogue language modelling (ERNIE; Sun et al., 2019, section 3.3): predicts hidden tokens of three turns, and
whether the turns belong together.

Turns are queries (of users) and responses (of assistants) in the orders QRQ, QRR and QQR. In half of the examples a
turn is replaced by one of the same role from another conversation. Segments mark roles: 1 for a query, 2 for a
response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.contrib.ernie.label_objective import HeadedLoss, no_view, objective_head, task_number
from subgraft.contrib.ernie.objectives import DialogueSettings
from subgraft.data.text.encoded import Sequences, encode
from subgraft.modeling.sides import stack_states
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.embedding_view import IGNORED, ModelEmbeddings
from subgraft.training.objectives.compute.interface import (
    GeneratorView,
    LastWeights,
    ObjectiveInputs,
    PaddedBatch,
    pad,
    pad_with_mask,
)
from subgraft.training.objectives.compute.masked import Masking, masking_settings
from subgraft.training.objectives.compute.masked_inputs import InputText

_TURNS = 3
_ORDERS = frozenset({(0, 1, 0), (0, 1, 1), (0, 0, 1)})
_ROLES: Mapping[str, int] = {"user": 0, "assistant": 1}
_LABELS = ("fake", "real")
# [CLS], and a separator after each turn.
_AROUND = 1 + _TURNS


class Dialogue(NamedTuple):
    """Three turns, their roles (0 for a query, 1 for a response), and whether they come from one conversation."""

    turns: tuple[list[int], ...]
    roles: tuple[int, ...]
    real: bool


class Dialogues:
    """All runs of three turns in one of the orders. A turn is truncated to a third of the available tokens.

    Raises UserError if there are no such turns, or only one conversation.
    """

    def __init__(
        self, conversations: Iterable[Sequence[Mapping[str, str]]], tokenizer: Tokenizer, room: int, seed: int
    ) -> None:
        texts, roles, owners = list[str](), list[int](), list[int]()
        for number, conversation in enumerate(conversations):
            for turn in conversation:
                if turn["role"] in _ROLES:
                    texts.append(turn["content"])
                    roles.append(_ROLES[turn["role"]])
                    owners.append(number)
        self._turns: Sequences = encode(texts, tokenizer).sequences.truncate(room // _TURNS)
        self._roles, self._owners, self._seed = np.array(roles), np.array(owners), seed
        runs = range(len(texts) - _TURNS + 1)
        suitable = [
            start
            for start in runs
            if owners[start] == owners[start + 2] and tuple(roles[start : start + _TURNS]) in _ORDERS
        ]
        self._starts = np.array(suitable, dtype=np.int64)
        if not suitable:
            raise UserError("no conversation has three turns in the order QRQ, QRR or QQR, which dialogue learns")
        if self._owners[-1] == self._owners[0]:
            raise UserError("there is one conversation, and dialogue takes turns from others")
        self._turns_by_role = [np.flatnonzero(self._roles == role) for role in (0, 1)]
        total = np.concatenate([[0], np.cumsum(self._turns.lengths, dtype=np.int64)])
        self._lengths: np.ndarray = total[self._starts + _TURNS] - total[self._starts]

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def lengths(self) -> np.ndarray:
        """The tokens of the real turns [n]."""
        return self._lengths

    def example(self, index: int, rng: np.random.Generator) -> Dialogue:
        start = int(self._starts[index])
        indices = list(range(start, start + _TURNS))
        real = bool(rng.random() < 0.5)
        if not real:
            replaced = int(rng.integers(_TURNS))
            replacement = self._sample_other_turn(indices[replaced], rng)
            real = replacement is None
            indices[replaced] = indices[replaced] if replacement is None else replacement
        return Dialogue(
            tuple(self._turns[index] for index in indices), tuple(int(self._roles[index]) for index in indices), real
        )

    def _sample_other_turn(self, turn: int, rng: np.random.Generator) -> int | None:
        """A random turn of the same role in another conversation; None if there is none."""
        turns = self._turns_by_role[self._roles[turn]]
        low, high = (np.searchsorted(self._owners[turns], self._owners[turn], side) for side in ("left", "right"))
        others = len(turns) - int(high - low)
        if not others:
            return None
        sampled = int(rng.integers(others))
        return int(turns[sampled if sampled < low else sampled + high - low])


@dataclass(frozen=True)
class DialogueBatch(PaddedBatch):
    """A padded batch: input_ids, attention_mask, token_type_ids, labels [B, T]; real: whether turns are real [B]."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor
    labels: Tensor
    real: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {**super().counts, "response": len(self.real)}

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.labels), self.labels.shape[1]


class DialogueLoss(HeadedLoss):
    """The summed losses of hidden tokens and, from the state of [CLS], of real or fake turns (`response`).

    language_model: the pretrained model.  model: the same model with a classifying head.
    """

    weights: Mapping[str, float] = {"loss": 1.0, "response": 1.0}

    def __init__(
        self, language_model: PreTrainedModel, model: PreTrainedModel, task: int, label_smoothing: float = 0.0
    ) -> None:
        super().__init__(model, task)
        self.language_model, self._label_smoothing = language_model, label_smoothing

    def forward(self, batch: DialogueBatch) -> dict[str, Tensor]:
        top = stack_states(self.language_model, layer=None, **self.inputs(batch))
        tokens = ModelEmbeddings(self.language_model).cross_entropy(top, batch.labels, self._label_smoothing)
        headed: Any = self.model
        logits = headed.classifier(headed.dropout(headed.base_model.pooler(top)))
        return {"loss": tokens, "response": cross_entropy(logits.float(), batch.real, reduction="sum")}


class DialogueObjective(LastWeights):
    """Dialogue language modelling of a corpus of conversations; the last weights are selected."""

    def __init__(self, settings: DialogueSettings, request: ObjectiveInputs) -> None:
        """Raises UserError for unsuitable conversations, and a model of fewer than three segments."""
        bundle, tokenizer = request.bundle, request.bundle.encoder
        self._request, self._task = request, task_number(request)
        segments = int(bundle.model.config.to_dict().get("type_vocab_size", 0))
        if segments < 3:
            what = f"the model has {segments} segments, and dialogue needs 3: for queries, responses and other text"
            raise UserError(what, hint="Take a model of more segments, or leave dialogue out of upstream.objectives.")
        room = request.training.max_length - _AROUND
        try:
            self._dialogues = Dialogues(request.corpus.conversations("train"), tokenizer, room, request.seed)
        except UserError as error:
            hint = "Leave dialogue out of upstream.objectives, or give other conversations."
            raise UserError(error.what, where=str(request.corpus.directory), hint=error.hint or hint) from None
        self._masking = Masking(tokenizer, masking_settings(settings))
        self._begin, self._end = tokenizer.special["bos"], tokenizer.special["eos"]

    @property
    def lengths(self) -> np.ndarray:
        return self._dialogues.lengths + _AROUND

    def batch(self, indices: np.ndarray, epoch: int) -> DialogueBatch:
        rows = [self._row(int(index), epoch) for index in indices]
        tokens, mask = pad_with_mask([row[0] for row in rows], self._request.bundle.padding[0])
        labels, types = pad([row[1] for row in rows], IGNORED), pad([row[2] for row in rows], 0)
        return DialogueBatch(tokens, mask, types, labels, torch.tensor([int(row[3]) for row in rows]))

    def _row(self, index: int, epoch: int) -> tuple[list[int], list[int], list[int], bool]:
        """Tokens with some hidden, their labels and segments, and whether the turns are real."""
        rng = np.random.default_rng([self._request.seed, epoch, index])
        turns, roles, real = self._dialogues.example(index, rng)
        hidden = self._masking(InputText([token for turn in turns for token in turn]), rng)
        tokens, labels, types, position = [self._begin], [IGNORED], [0], 1
        for turn, role in zip(turns, roles, strict=True):
            tokens += [*hidden.tokens[position : position + len(turn)], self._end]
            labels += [*hidden.labels[position : position + len(turn)], IGNORED]
            types += [1 + role] * (len(turn) + 1)
            position += len(turn)
        return tokens, labels, types, real

    def loss(self, label_smoothing: float) -> DialogueLoss:
        model, padding = self._request.bundle.model, self._request.bundle.padding[0]
        headed = objective_head(model, "dialogue", "sequence", _LABELS, self._request.seed, padding)
        return DialogueLoss(model, headed, self._task, label_smoothing)

    def view(self, name: SideName) -> GeneratorView[Any]:
        return no_view("dialogue", name)
