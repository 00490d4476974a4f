"""XLNet's permutation language modelling: predicts targets in a random order (Yang et al., NeurIPS 2019, section 2).

As in the authors' code, targets are sampled first and then ordered; special tokens and all other tokens are the
context, which sees itself. Targets are not masked in the input, because the content streams of later targets read them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from subgraft.config.settings_base import SideName
from subgraft.contrib.xlnet.objective import PermutationSettings
from subgraft.contrib.xlnet.permutation_text import SegmentBlocks, Segments, draw_targets
from subgraft.contrib.xlnet.two_streams import CONTEXT, Memory, Streams, content_stream, two_streams
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.compute.embedding_view import IGNORED, EmbeddingView, ModelEmbeddings
from subgraft.training.objectives.compute.interface import (
    Body,
    GeneratorView,
    LastWeights,
    ObjectiveInputs,
    PaddedBatch,
    TokenLoss,
    pad,
    pad_with_mask,
)
from subgraft.training.stream_memory import StreamMemory, StreamRows, require_fitting_memory
from subgraft.training.streams import NO_BLOCK, NO_POSITION, StreamPlan

# <sep> and <cls>; two segments have another <sep>.
AROUND = 2


@dataclass(frozen=True)
class PermutedExample:
    """A block as the model reads it.

    Attributes:
        tokens: the tokens, including special ones.
        types: the segment of each token; <cls> is a separate segment.
        ranks: the position of each token in the order of prediction, or CONTEXT.
        text: the positions of the block's own text.
        backwards: whether the text is in reversed order.
        follows: whether the second segment follows the first; None for one segment.
    """

    tokens: list[int]
    types: list[int]
    ranks: list[int]
    text: list[int]
    backwards: bool = False
    follows: bool | None = None

    @property
    def targets(self) -> list[int]:
        """The positions to predict."""
        return [place for place, rank in enumerate(self.ranks) if rank != CONTEXT]


@dataclass(frozen=True)
class PermutedBatch(PaddedBatch):
    """A padded batch of B rows of T tokens with M targets.

    Attributes:
        input_ids, attention_mask, token_type_ids, ranks: [B, T].
        targets: positions [B, M].
        labels: their tokens, IGNORED where a row has fewer [B, M].
        backwards: [B].
        follows: the classes of the second segments, 0 for one that follows, or IGNORED [B].
        streams, before, blocks: the stream of each row, the block that it continues, and its own block [B].
        carried: the positions to remember, padded with NO_POSITION on the left [B, m].
    """

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor
    ranks: Tensor
    targets: Tensor
    labels: Tensor
    backwards: Tensor
    follows: Tensor
    streams: Tensor
    before: Tensor
    blocks: Tensor
    carried: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.input_ids), self.input_ids.shape[1]

    @property
    def counts(self) -> dict[str, int]:
        both = {"loss": self.labels, "next_sentence": self.follows}
        counted = {name: int((labels != IGNORED).sum()) for name, labels in both.items()}
        return {name: count for name, count in counted.items() if count or name == "loss"}


class Permutation:
    """Lays out blocks, and samples their targets and the order in which they are predicted."""

    def __init__(self, bundle: Bundle, settings: PermutationSettings) -> None:
        self._settings = settings
        self.separator, self.end = bundle.input_layout().end
        self.padding = bundle.encoder.special["pad"]

    def whole(self, text: Sequence[int]) -> PermutedExample:
        """A text in one segment, without targets."""
        return self.lay_out(Segments(list(text)))

    def lay_out(self, segments: Segments, backwards: bool = False) -> PermutedExample:
        """[A, <sep>, <cls>] or [A, <sep>, B, <sep>, <cls>] (section 2.5), without targets."""
        first, second, follows = segments
        tokens, types, text = [*first, self.separator], [0] * (len(first) + 1), list(range(len(first)))
        if second is not None:
            second_positions = range(len(tokens), len(tokens) + len(second))
            text += second_positions if follows else ()
            tokens, types = [*tokens, *second, self.separator], [*types, *[1] * (len(second) + 1)]
        ranks = [CONTEXT] * (len(tokens) + 1)
        is_next = None if second is None else follows
        return PermutedExample([*tokens, self.end], [*types, 2], ranks, text, backwards, is_next)

    def permute_targets(self, example: PermutedExample, rng: np.random.Generator) -> PermutedExample:
        """The example with targets in an order (equation 3); special tokens are not targets."""
        positions = np.flatnonzero(~np.isin(example.tokens, (self.separator, self.end)))
        if not len(positions):
            return example
        targets = positions[draw_targets(len(positions), self._settings, rng)]
        ranks = np.full(len(example.tokens), CONTEXT)
        ranks[targets] = rng.permutation(len(targets))
        return replace(example, ranks=ranks.tolist())

    def collate(self, examples: Sequence[PermutedExample]) -> PermutedBatch:
        """Pad examples on the right. The rows do not continue any blocks."""
        inputs = pad_with_mask([example.tokens for example in examples], self.padding)
        targets = [example.targets for example in examples]
        labels = [
            [example.tokens[place] for place in places] for example, places in zip(examples, targets, strict=True)
        ]
        predicts_next = self._settings.next_sentence
        follows = [
            IGNORED if example.follows is None or not predicts_next else int(not example.follows)
            for example in examples
        ]
        rows = torch.full((len(examples),), NO_BLOCK)
        return PermutedBatch(
            *inputs,
            pad([example.types for example in examples], 0),
            pad([example.ranks for example in examples], CONTEXT),
            pad(targets, 0),
            pad(labels, IGNORED),
            torch.tensor([example.backwards for example in examples]),
            torch.tensor(follows),
            rows,
            rows,
            rows,
            torch.zeros(len(examples), 0, dtype=torch.long),
        )


class PermutedStates:
    """The states of a batch: those of targets in the query stream, and those of tokens in the content stream.

    top: the states of the query stream, from which labels are predicted [B, M, d].  of: the states of the content
    stream [B, T, d].
    """

    def __init__(
        self,
        model: PreTrainedModel,
        batch: PermutedBatch,
        embedding_view: EmbeddingView,
        memory: Memory | None = None,
    ) -> None:
        self._model, self._batch, self._embedding_view, self._memory = model, batch, embedding_view, memory

    @cached_property
    def streams(self) -> Streams:
        batch = self._batch
        return two_streams(
            self._model.base_model,
            self._embedding_view.read("decoder", batch.input_ids),
            attention_mask=batch.attention_mask,
            token_type_ids=batch.token_type_ids,
            ranks=batch.ranks,
            targets=batch.targets,
            counted=batch.labels != IGNORED,
            backwards=batch.backwards,
            memory=self._memory,
        )

    @property
    def top(self) -> Tensor:
        return self.streams.query

    def of(self, name: SideName) -> Tensor:
        del name
        if self._batch.labels.shape[1]:
            return self.streams.content
        batch = self._batch
        inputs = self._embedding_view.read("decoder", batch.input_ids)
        return content_stream(self._model.base_model, inputs, batch.attention_mask, batch.token_type_ids)

    def of_original(self, batch: PermutedBatch) -> PermutedStates:
        return PermutedStates(self._model, batch, ModelEmbeddings(self._model))


class PermutationLoss(TokenLoss):
    """The negative log-likelihood of targets (equation 5); with `next_sentence`, also that of the segments' relation.

    weights: of both losses.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        label_smoothing: float = 0.0,
        memory: StreamMemory | None = None,
        head: nn.Linear | None = None,
    ) -> None:
        super().__init__(model, label_smoothing)
        self.next_sentence, self._memory = head, memory
        self.weights = {"loss": 1.0} if head is None else {"loss": 1.0, "next_sentence": 1.0}

    def states(self, batch: PermutedBatch, embedding_view: EmbeddingView) -> PermutedStates:
        recalled = None if self._memory is None else self._memory.recall(batch.streams, batch.before)
        memory = None if recalled is None else Memory(recalled.states, recalled.empty)
        return PermutedStates(self.model, batch, embedding_view, memory)

    def by(self, embedding_view: EmbeddingView, batch: PermutedBatch) -> dict[str, Tensor]:
        states = self.states(batch, embedding_view)
        losses = {"loss": embedding_view.cross_entropy(states.top, batch.labels, self.label_smoothing)}
        if self._memory is not None:
            below = states.streams.below
            self._memory.keep(batch.streams, batch.before, batch.blocks, below, batch.carried)
        if self.next_sentence is not None:
            ends = batch.attention_mask.sum(dim=1) - 1
            read = states.streams.content[torch.arange(len(ends), device=ends.device), ends]
            logits = self.next_sentence(read).float()
            losses["next_sentence"] = cross_entropy(logits, batch.follows, ignore_index=IGNORED, reduction="sum")
        return losses


class PermutedView(GeneratorView[PermutedExample]):
    """The view that trains generators: the own text of each block in one segment, forwards and without memory.

    Targets are sampled after the re-segmentation. The loss Ld compares states of the content stream, in which every
    token sees all others. The head of `next_sentence` is not part of the model, so it has no loss here.
    """

    side: SideName = "decoder"
    causal = False

    def __init__(self, blocks: SegmentBlocks, permutation: Permutation) -> None:
        self._blocks, self._permutation = blocks, permutation

    @property
    def lengths(self) -> np.ndarray:
        return self._blocks.sizes + AROUND

    def original(self, index: int, epoch: int) -> PermutedExample:
        del epoch
        return self._permutation.whole(self._blocks.text(index))

    def body(self, example: PermutedExample) -> Body:
        return Body(example.tokens[:-AROUND], 0, AROUND)

    def rebuild(self, example: PermutedExample, body: list[int]) -> PermutedExample:
        del example
        return self._permutation.whole(body)

    def corrupt(self, example: PermutedExample, rng: np.random.Generator) -> PermutedExample:
        return self._permutation.permute_targets(example, rng)

    def collate(self, examples: Sequence[PermutedExample]) -> PermutedBatch:
        return self._permutation.collate(examples)

    def states(self, model: PreTrainedModel, batch: PermutedBatch, embedding_view: EmbeddingView) -> PermutedStates:
        return PermutedStates(model, batch, embedding_view)


class PermutationObjective(LastWeights):
    """Permutation language modelling of the text of each language; the last weights are selected."""

    def __init__(self, settings: PermutationSettings, request: ObjectiveInputs) -> None:
        bundle, longest = request.bundle, request.training.max_length
        self.settings, self.bundle, self.seed = settings, bundle, request.seed
        limit, around = min(settings.block_tokens or longest, longest), AROUND + (settings.input == "segment-pair")
        self.permutation = Permutation(bundle, settings)
        self.blocks = SegmentBlocks(settings, request, bundle.encoder, limit - around)
        self.lengths: np.ndarray = self.blocks.costs + around

    def example(self, index: int, epoch: int) -> PermutedExample:
        rng = np.random.default_rng([self.seed, epoch, index])
        segments, backwards = self.blocks.segments(index, rng), self.blocks.is_backwards(index, epoch)
        lay_out = self.permutation.lay_out(segments.reversed() if backwards else segments, backwards)
        return self.permutation.permute_targets(lay_out, rng)

    def batch(self, indices: np.ndarray, epoch: int) -> PermutedBatch:
        return self.permutation.collate([self.example(int(index), epoch) for index in indices])

    def loss(self, label_smoothing: float) -> PermutationLoss:
        return PermutationLoss(self.bundle.model, label_smoothing, head=self.new_head())

    def view(self, name: SideName) -> PermutedView:
        del name
        return PermutedView(self.blocks, self.permutation)

    def new_head(self) -> nn.Linear | None:
        """A head of two classes for `next_sentence`, initialised from the seed; None if it is not configured."""
        if not self.settings.next_sentence:
            return None
        config: Any = self.bundle.model.config
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            head = nn.Linear(config.d_model, 2)
            nn.init.normal_(head.weight, std=config.initializer_range)
            nn.init.zeros_(head.bias)
        return head


class StreamedPermutation(PermutationObjective):
    """Permutation language modelling with a memory of each document's earlier blocks (section 2.4)."""

    def __init__(self, settings: PermutationSettings, request: ObjectiveInputs) -> None:
        super().__init__(settings, request)
        require_fitting_memory(settings.memory_tokens, self.lengths, self.blocks.starts)
        width = max(1, request.training.batch_size // int(self.lengths.max()))
        self.plan = StreamPlan(self.lengths, self.blocks.starts, width, request.seed, self.blocks.backwards)

    @cached_property
    def memory(self) -> StreamMemory:
        """The memory of each stream; a training has one, which its loss fills."""
        config: Any = self.bundle.model.config
        return StreamMemory(self.plan.width, config.n_layer, self.settings.memory_tokens, config.d_model)

    def batch(self, indices: np.ndarray, epoch: int) -> PermutedBatch:
        examples = [self.example(int(index), epoch) for index in indices]
        size = self.settings.memory_tokens
        carried = np.full((len(examples), size), NO_POSITION, dtype=np.int64)
        for row, example in enumerate(examples):
            last = example.text[-size:]
            carried[row, size - len(last) :] = last
        return replace(
            self.permutation.collate(examples),
            **StreamRows.of(self.plan, indices, epoch)._asdict(),
            carried=torch.from_numpy(carried),
        )

    def loss(self, label_smoothing: float) -> PermutationLoss:
        return PermutationLoss(self.bundle.model, label_smoothing, self.memory, self.new_head())


def permute(settings: PermutationSettings, request: ObjectiveInputs) -> PermutationObjective:
    """Permutation language modelling with the configured memory, or none."""
    return (StreamedPermutation if settings.memory_tokens else PermutationObjective)(settings, request)
