"""Masked language modelling: hidden tokens of a sentence from all the others (Devlin et al., NAACL 2019, section 3.1).

A sentence is read as [CLS] x [SEP]. Tokens to predict are drawn anew in every epoch. There is no next sentence to
predict: sentences of a parallel corpus have none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.domains import MaskingSettings
from subgraft.models.hidden_states import stack_states
from subgraft.models.sides import side
from subgraft.objectives.seq2seq import IGNORED, pad, projected_loss
from subgraft.text.encoded import encode
from subgraft.vocabulary.tokenizer import Tokenizer

# [CLS] and [SEP]
AROUND = 2


@dataclass(frozen=True)
class MaskedExample:
    """A sentence as it is read, with [CLS] and [SEP], and for each token what is to be predicted there, or IGNORED."""

    tokens: list[int]
    labels: list[int]


@dataclass(frozen=True)
class MaskedBatch:
    """A padded batch: input_ids, attention_mask, labels [B, T], labels IGNORED where nothing is predicted."""

    input_ids: Tensor
    attention_mask: Tensor
    labels: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {"loss": int((self.labels != IGNORED).sum())}

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.labels), self.labels.shape[1]

    def to(self, device: torch.device | str) -> MaskedBatch:
        return MaskedBatch(*(getattr(self, field.name).to(device, non_blocking=True) for field in fields(self)))


class Masking:
    """Hides tokens of sentences, as its settings say."""

    def __init__(self, tokenizer: Tokenizer, settings: MaskingSettings) -> None:
        self._settings = settings
        self._begin, self._end = tokenizer.special["bos"], tokenizer.special["eos"]
        self._mask = tokenizer.special["mask"]
        self._ordinary = np.array([i for i in range(len(tokenizer)) if i not in tokenizer.special_ids], dtype=np.int64)

    def whole(self, body: Sequence[int]) -> MaskedExample:
        """A sentence of which nothing is hidden."""
        tokens = [self._begin, *body, self._end]
        return MaskedExample(tokens, [IGNORED] * len(tokens))

    def __call__(self, body: Sequence[int], generator: np.random.Generator) -> MaskedExample:
        """The sentence with so many of its tokens hidden as the share comes to, at least one."""
        settings, example = self._settings, self.whole(body)
        count = min(len(body), max(1, round(settings.share * len(body))))
        chosen = generator.permutation(len(body))[:count] + 1
        draws = generator.random(count)
        strangers = generator.choice(self._ordinary, count)
        for place, draw, stranger in zip(chosen.tolist(), draws.tolist(), strangers.tolist(), strict=True):
            example.labels[place] = example.tokens[place]
            if draw < settings.masked:
                example.tokens[place] = self._mask
            elif draw < settings.masked + settings.random:
                example.tokens[place] = stranger
        return example


class MaskedSentences:
    """Sentences to hide tokens of, each cut at max_length tokens; what is hidden is a function of (seed, epoch, index).

    lengths: what each costs in a batch [n], in tokens.
    """

    def __init__(
        self, lines: Sequence[str], tokenizer: Tokenizer, settings: MaskingSettings, max_length: int, seed: int
    ) -> None:
        self.masking = Masking(tokenizer, settings)
        self._bodies = encode(lines, tokenizer).sequences.cut(max_length - AROUND)
        self._padding = tokenizer.special["pad"]
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

    def example(self, index: int, epoch: int) -> MaskedExample:
        return self.masking(self._bodies[index], np.random.default_rng([self._seed, epoch, index]))

    def batch(self, indices: np.ndarray, epoch: int) -> MaskedBatch:
        return collate([self.example(int(index), epoch) for index in indices], self._padding)


def collate(examples: Sequence[MaskedExample], padding: int) -> MaskedBatch:
    """Pad examples on the right."""
    input_ids = pad([example.tokens for example in examples], padding)
    lengths = torch.tensor([len(example.tokens) for example in examples])
    attention_mask = (torch.arange(input_ids.shape[1]) < lengths[:, None]).long()
    return MaskedBatch(input_ids, attention_mask, pad([example.labels for example in examples], IGNORED))


class MaskedLoss(nn.Module):
    """Label-smoothed cross entropy of a masked language model, summed over the tokens to predict."""

    def __init__(self, model: PreTrainedModel, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def forward(self, batch: MaskedBatch) -> dict[str, Tensor]:
        states = stack_states(self.model, input_ids=batch.input_ids, attention_mask=batch.attention_mask)
        return {"loss": projected_loss(states, side(self.model, "decoder"), batch.labels, self.label_smoothing)}
