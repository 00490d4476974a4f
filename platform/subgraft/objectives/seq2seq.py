"""What every encoder-decoder objective shares: examples, their batches, and the loss per target token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.models.hidden_states import decoder_states_beside, encoder_states
from subgraft.models.sequence_format import SequenceFormat
from subgraft.models.sides import Side, side
from subgraft.objectives.cross_entropy import linear_cross_entropy

IGNORED = -100


@dataclass(frozen=True)
class Example:
    """One training example.

    source: encoder input; target: labels; both with their special tokens at the end.
    start: what the decoder begins with.
    source_body, target_body: how many tokens come before those special tokens.
    source_begins: how many special tokens the source begins with; source_body counts none of them.
    """

    source: list[int]
    target: list[int]
    start: int
    source_body: int
    target_body: int
    source_begins: int = 0

    @classmethod
    def of(cls, source: Sequence[int], target: Sequence[int], form: SequenceFormat) -> Example:
        """Both sides' bodies with the special tokens that the model's family puts around them."""
        return cls(
            [*form.source_beginning, *source, *form.source_ending],
            [*target, *form.target_ending],
            form.start,
            len(source),
            len(target),
            len(form.source_beginning),
        )


class Objective(Protocol):
    """A source of examples, each a function of (seed, epoch, index)."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> np.ndarray:
        """What each example costs in a batch [n]: the longer of its two sides, in tokens."""
        ...

    def example(self, index: int, epoch: int) -> Example: ...


@dataclass(frozen=True)
class Seq2SeqBatch:
    """A padded batch: input_ids, attention_mask [B, S]; decoder_input_ids, labels [B, T], labels padded with -100."""

    input_ids: Tensor
    attention_mask: Tensor
    decoder_input_ids: Tensor
    labels: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {"loss": int((self.labels != IGNORED).sum())}

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.labels), max(self.input_ids.shape[1], self.labels.shape[1])

    def to(self, device: torch.device | str) -> Seq2SeqBatch:
        return Seq2SeqBatch(*(getattr(self, field.name).to(device, non_blocking=True) for field in fields(self)))


class Seq2SeqData:
    """An objective's examples as padded batches: what the training loop draws from."""

    def __init__(self, objective: Objective, source_pad: int, target_pad: int) -> None:
        self._objective = objective
        self._pads = (source_pad, target_pad)

    @property
    def lengths(self) -> np.ndarray:
        return self._objective.lengths

    def batch(self, indices: np.ndarray, epoch: int) -> Seq2SeqBatch:
        return collate([self._objective.example(int(index), epoch) for index in indices], *self._pads)


def collate(examples: Sequence[Example], source_pad: int, target_pad: int) -> Seq2SeqBatch:
    """Pad examples on the right; each side with its own padding id."""
    input_ids = pad([example.source for example in examples], source_pad)
    lengths = torch.tensor([len(example.source) for example in examples])
    attention_mask = (torch.arange(input_ids.shape[1]) < lengths[:, None]).long()
    decoder_inputs = [[example.start, *example.target[:-1]] for example in examples]
    return Seq2SeqBatch(
        input_ids,
        attention_mask,
        pad(decoder_inputs, target_pad),
        pad([example.target for example in examples], IGNORED),
    )


def pad(sequences: Sequence[Sequence[int]], value: int) -> Tensor:
    """Sequences as one tensor [B, T], padded on the right."""
    longest = max(len(tokens) for tokens in sequences)
    padded = np.full((len(sequences), longest), value, dtype=np.int64)
    for row, tokens in enumerate(sequences):
        padded[row, : len(tokens)] = tokens
    return torch.from_numpy(padded)


class Seq2SeqLoss(nn.Module):
    """Label-smoothed cross entropy of an encoder-decoder model, summed over target tokens."""

    def __init__(self, model: PreTrainedModel, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(self, batch: Seq2SeqBatch) -> dict[str, Tensor]:
        return {"loss": token_loss(self.model, batch, self.label_smoothing)}


def token_loss(model: PreTrainedModel, batch: Seq2SeqBatch, label_smoothing: float = 0.0) -> Tensor:
    """Cross entropy of the model's output against the labels that count, summed, in nats."""
    return projected_loss(top_states(model, batch), side(model, "decoder"), batch.labels, label_smoothing)


def top_states(model: PreTrainedModel, batch: Seq2SeqBatch) -> Tensor:
    """The decoder's top hidden states [B, T, d]."""
    mask = batch.attention_mask
    memory = encoder_states(model, input_ids=batch.input_ids, attention_mask=mask)
    return decoder_states_beside(model, memory, mask, input_ids=batch.decoder_input_ids)


def projected_loss(states: Tensor, decoder: Side, labels: Tensor, label_smoothing: float) -> Tensor:
    """Cross entropy of top states [B, T, d] through the output projection and what may come before it."""
    assert decoder.output is not None
    counted = labels != IGNORED
    picked = states[counted] if decoder.transform is None else decoder.transform(states[counted])
    bias = None if decoder.bias is None else decoder.bias.reshape(-1)
    return linear_cross_entropy(picked, decoder.output.weight, bias, labels[counted], label_smoothing)
