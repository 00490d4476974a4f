"""UniLM's multitask masking: predicts hidden tokens under one of four attention masks (Dong et al., NeurIPS 2019).

The shares are those of BART's comparison (Lewis et al., ACL 2020, section 4.1). Attention masks are bool [B, 1, T, T],
which transformers' encoders take as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from subgraft.data.text.languages import LanguageDraws
from subgraft.modeling.bundle import Bundle
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.compute.blocks import blocks_of, concatenate_blocks
from subgraft.training.objectives.compute.interface import Body, Examples, ObjectiveInputs, draws_of
from subgraft.training.objectives.compute.masked import Masking
from subgraft.training.objectives.compute.masked_inputs import AROUND, InputText
from subgraft.training.objectives.compute.single_stack import (
    StackBatch,
    StackExample,
    StackObjective,
    StackView,
    collate,
)
from subgraft.training.objectives.masked import MaskedSettings
from subgraft.training.objectives.multitask_masked import MultitaskMaskedSettings

Attention = Literal["left-to-right", "right-to-left", "all", "prefix"]
SHARES: Mapping[Attention, float] = {"left-to-right": 1 / 6, "right-to-left": 1 / 6, "all": 1 / 3, "prefix": 1 / 3}


@dataclass(frozen=True)
class AttentionExample(StackExample):
    """An example with the kind of attention mask that it is read with."""

    attention: Attention


def attention_matrix(attention: Attention, size: int, length: int) -> Tensor:
    """The attention mask of an example: bool [size, size], whose rows are the tokens that see the columns.

    Args:
        attention: the kind of mask.
        size: the number of tokens, including padding.
        length: the number of tokens without padding, which other tokens do not see.
    """
    positions = torch.arange(size)
    is_earlier, is_token = positions <= positions[:, None], positions < length
    visible = {
        "left-to-right": is_earlier,
        "right-to-left": is_earlier.T,
        "all": torch.ones_like(is_earlier),
        "prefix": is_earlier | (positions < length // 2),
    }
    # Padding sees itself, because a softmax over nothing is NaN.
    return (visible[attention] & is_token) | torch.eye(size, dtype=torch.bool)


class MultitaskMasking:
    """Hides tokens of blocks, and samples the attention mask of each block."""

    def __init__(self, tokenizer: Tokenizer, settings: MultitaskMaskedSettings) -> None:
        self._masking = Masking(tokenizer, MaskedSettings(share=settings.share))

    def whole(self, body: Sequence[int]) -> AttentionExample:
        """A block without hidden tokens, all of which see each other."""
        return AttentionExample(**vars(self._masking.whole(InputText(list(body)))), attention="all")

    def __call__(self, body: Sequence[int], rng: np.random.Generator) -> AttentionExample:
        """A block with hidden tokens and a sampled attention mask."""
        attention = list(SHARES)[int(rng.choice(len(SHARES), p=list(SHARES.values())))]
        return AttentionExample(**vars(self._masking(InputText(list(body)), rng)), attention=attention)


class MultitaskMasked:
    """Examples of blocks; hidden tokens and attention are a function of (seed, epoch, index)."""

    def __init__(self, bodies: Examples[list[int]], masking: MultitaskMasking, seed: int) -> None:
        self.bodies, self.masking, self._seed = bodies, masking, seed

    def __len__(self) -> int:
        return len(self.bodies)

    @property
    def lengths(self) -> np.ndarray:
        return self.bodies.lengths

    @property
    def draws(self) -> LanguageDraws | None:
        """Which blocks an epoch has; all if None."""
        return draws_of(self.bodies)

    def example(self, index: int, epoch: int) -> AttentionExample:
        return self.masking(self.bodies.example(index, epoch), np.random.default_rng([self._seed, epoch, index]))


def attention_batch(examples: Sequence[StackExample], padding: int) -> StackBatch:
    """Padded examples, each under its own attention: attention_mask is bool [B, 1, T, T]."""
    batch = collate(examples, padding)
    size = batch.input_ids.shape[1]
    masks = [
        attention_matrix(each.attention if isinstance(each, AttentionExample) else "all", size, len(each.tokens))
        for each in examples
    ]
    return StackBatch(batch.input_ids, torch.stack(masks)[:, None], batch.labels)


class MultitaskMaskedView(StackView):
    """The view that trains generators: tokens are hidden after the re-segmentation."""

    causal = False

    def __init__(self, examples: MultitaskMasked, padding: int) -> None:
        super().__init__(examples, padding)
        self._bodies, self._masking = examples.bodies, examples.masking

    def original(self, index: int, epoch: int) -> AttentionExample:
        return self._masking.whole(self._bodies.example(index, epoch))

    def body(self, example: StackExample) -> Body:
        return Body(example.tokens[1:-1], 1, AROUND)

    def rebuild(self, example: StackExample, body: list[int]) -> AttentionExample:
        del example
        return self._masking.whole(body)

    def corrupt(self, example: StackExample, rng: np.random.Generator) -> AttentionExample:
        return self._masking(example.tokens[1:-1], rng)

    def collate(self, examples: Sequence[StackExample]) -> StackBatch:
        return attention_batch(examples, self._padding)


class MultitaskMaskedObjective(StackObjective):
    """Multitask masking of the text of each language."""

    def __init__(self, bundle: Bundle, examples: MultitaskMasked) -> None:
        super().__init__(
            bundle.model, examples, bundle.padding[1], lambda _, padding: MultitaskMaskedView(examples, padding)
        )

    @classmethod
    def of(cls, settings: MultitaskMaskedSettings, request: ObjectiveInputs) -> MultitaskMaskedObjective:
        bodies = concatenate_blocks(request, [(blocks, blocks) for blocks in blocks_of(request, settings.block_tokens)])
        masking = MultitaskMasking(request.bundle.decoder, settings)
        return cls(request.bundle, MultitaskMasked(bodies, masking, request.seed))

    def collate(self, examples: Sequence[StackExample]) -> StackBatch:
        return attention_batch(examples, self._padding)
