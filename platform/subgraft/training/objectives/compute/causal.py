"""Causal language modelling: each token is predicted from those before it (Radford et al., 2019, section 2).

The state of each token except the last predicts the next token. A separator precedes and follows every line, so all
tokens of a line, and its end, are predicted from at least one token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import log
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.base.progress import ProgressCallback
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings, TrainingSettings
from subgraft.data.text.encoded import encode
from subgraft.evaluation.metrics.bits_per_character import bits_per_character, count_characters
from subgraft.modeling.bundle import Bundle
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.objectives.causal import CausalSettings
from subgraft.training.objectives.compute import single_stack
from subgraft.training.objectives.compute.embedding_view import IGNORED, ModelEmbeddings
from subgraft.training.objectives.compute.interface import (
    Body,
    Concatenation,
    ObjectiveInputs,
    TokenLoss,
    selected_examples,
)
from subgraft.training.objectives.compute.single_stack import (
    StackBatch,
    StackExample,
    StackLoss,
    StackObjective,
    StackStates,
    StackView,
)
from subgraft.training.objectives.compute.whole_examples import BATCH_TOKENS, Batched, WholeExamples, label_nats
from subgraft.training.objectives.conditioned import AnyConditionedSettings
from subgraft.training.objectives.objective import AnyObjective


class CausalBatch(StackBatch):
    """A batch whose tokens are predicted from earlier tokens."""

    forwards = True


def collate(examples: Sequence[StackExample], padding: int) -> CausalBatch:
    """Pad examples on the right."""
    return CausalBatch(**vars(single_stack.collate(examples, padding)))


def shift_labels(tokens: Sequence[int], prefix: int = 1) -> StackExample:
    """An example in which each token after the first `prefix` is predicted from the state of the token before it."""
    ignored = prefix - 1
    return StackExample(list(tokens), [IGNORED] * ignored + list(tokens[prefix:]) + [IGNORED])


class Stream:
    """The concatenation of lines with separators, cut into blocks of `block_tokens` tokens.

    A block starts with the last token of the previous block, so every token is predicted once in an epoch.

    documents: the first line of each document, and the end of the last [D + 1]. Documents are concatenated separately.

    Attributes:
        first_blocks: the first block of each document, and the end of the last [D + 1].
    """

    def __init__(
        self,
        lines: Sequence[str],
        tokenizer: Tokenizer,
        separator: int,
        block_tokens: int,
        documents: np.ndarray | None = None,
    ) -> None:
        encoded = encode(lines, tokenizer).sequences
        bounds = np.array([0, len(encoded)]) if documents is None else documents
        document_starts = frozenset(bounds[:-1].tolist())
        # The first line of a document also has a separator before it.
        separated = (
            (*([separator] if line in document_starts else ()), *encoded[line], separator)
            for line in range(len(encoded))
        )
        self._stream = np.fromiter(chain.from_iterable(separated) if len(encoded) else [separator], dtype=np.int32)
        tokens = np.concatenate([[0], np.cumsum(encoded.lengths + 1, dtype=np.int64)])
        ends = tokens[bounds[1:]] + np.arange(1, len(bounds))
        starts = [
            np.arange(begin, max(begin + 1, end - 1), block_tokens - 1)
            for begin, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
        ]
        self._starts = np.concatenate(starts)
        self._ends = np.minimum(self._starts + block_tokens, np.repeat(ends, [len(blocks) for blocks in starts]))
        self.first_blocks = np.cumsum([0, *map(len, starts)])

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def lengths(self) -> np.ndarray:
        lengths: np.ndarray = self._ends - self._starts
        return lengths

    def example(self, index: int, epoch: int) -> StackExample:
        del epoch
        return shift_labels(self._stream[self._starts[index] : self._ends[index]].tolist())


class Lines:
    """Single lines between separators, truncated to max_length tokens.

    Args:
        lines: the text.
        tokenizer: the vocabulary.
        separator: the id of the token around lines.
        max_length: limit of an example in tokens.
        batch_unit: the cost of a line in a batch: its tokens, or its characters, which do not depend on a vocabulary.

    Attributes:
        whole: which lines are complete, not truncated [n].
    """

    def __init__(
        self,
        lines: Sequence[str],
        tokenizer: Tokenizer,
        separator: int,
        max_length: int,
        batch_unit: Literal["tokens", "characters"] = "tokens",
    ) -> None:
        encoded = encode(lines, tokenizer)
        self._bodies = encoded.sequences.truncate(max_length - 2)
        self.whole = self._bodies.whole
        self._separator, self._padding = separator, padding_of(tokenizer)
        in_characters: np.ndarray = encoded.characters.astype(np.int64) + 1
        self.lengths: np.ndarray = in_characters if batch_unit == "characters" else self._bodies.lengths + 2

    def __len__(self) -> int:
        return len(self._bodies)

    def example(self, index: int, epoch: int) -> StackExample:
        del epoch
        return shift_labels([self._separator, *self._bodies[index], self._separator])

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        return collate([self.example(int(index), epoch) for index in indices], self._padding)


class CausalLoss(StackLoss):
    """The loss of tokens that are predicted from earlier tokens."""

    forwards = True


class CausalView(StackView):
    """The view that trains generators: all tokens but the first may be re-segmented."""

    causal = True

    def collate(self, examples: Sequence[StackExample]) -> CausalBatch:
        return collate(examples, self._padding)

    def body(self, example: StackExample) -> Body:
        return Body(example.tokens[1:], 0, 1)

    def rebuild(self, example: StackExample, body: list[int]) -> StackExample:
        return shift_labels([example.tokens[0], *body])


class CausalObjective(StackObjective):
    """Causal language modelling of the text of each language.

    The lowest bits per character on the dev split, if there is one, select the weights.
    """

    lower_is_better = True

    def __init__(self, settings: CausalSettings, request: ObjectiveInputs) -> None:
        self._request = request
        tokenizer, limit = request.bundle.decoder, request.training.max_length
        self._separator = separator_of(tokenizer, settings)
        set_bos_token(request.bundle.model, self._separator)
        common = tokenizer, self._separator, min(settings.block_tokens or limit, limit)
        self._streams = list[Stream]()
        if settings.recurrent:
            self._streams = [Stream(text.lines, *common, text.starts) for text in request.documents()]
        source: type[Stream | Lines] = Stream if settings.packed else Lines
        parts: Sequence[Stream | Lines] = self._streams or [source(lines, *common) for _, lines in request.texts()]
        super().__init__(request.bundle.model, Concatenation(parts), padding_of(tokenizer), CausalView)
        self.select = "bits_per_character" if "dev" in request.corpus.splits else None

    @property
    def first_blocks(self) -> np.ndarray:
        """The first block of each document, and the end of the last [D + 1], for streams of documents."""
        offsets = np.cumsum([0, *map(len, self._streams)])
        ends = [
            stream.first_blocks[1:] + offset for stream, offset in zip(self._streams, offsets.tolist(), strict=False)
        ]
        return np.concatenate([[0], *ends])

    def loss(self, label_smoothing: float) -> CausalLoss:
        return CausalLoss(self._model, label_smoothing)

    def dev_scores(self) -> Callable[[], dict[str, float]] | None:
        if self.select is None:
            return None
        request, count = self._request, self._request.training.dev_sentences
        lines = [line for _, text in request.texts("dev") for line in text[:count]]
        return CausalScores(request.bundle, lines, self._separator, request.training)


class ScoredLines(Batched, Protocol):
    """Lines in batches. whole: which of them are not truncated [n]."""

    @property
    def whole(self) -> np.ndarray: ...


class LineScores:
    """Bits per character of lines and their ends. Lines longer than the model's limit are left out.

    Raises UserError if no line is left.
    """

    def __init__(
        self, bundle: Bundle, lines: Sequence[str], examples: ScoredLines, loss: TokenLoss, training: TrainingSettings
    ) -> None:
        limit = bundle.max_positions
        self._whole = WholeExamples(examples, examples.whole, max(training.batch_size, limit))
        if not len(self._whole.indices):
            raise UserError(
                f"no dev line fits into the {limit} tokens that the model takes",
                hint="Give a model of more positions (model.max_positions), or dev lines of fewer tokens.",
            )
        self._characters = count_characters(lines[index] for index in self._whole.indices.tolist())
        self._loss, self._precision = loss, training.precision

    def __call__(self) -> dict[str, float]:
        device = next(self._loss.parameters()).device
        total = self._whole.total(lambda batch: self._loss(batch)["loss"], device, self._precision)
        return {"bits_per_character": bits_per_character(total, self._characters)}


class CausalScores(LineScores):
    """Bits per character of lines without a source."""

    def __init__(self, bundle: Bundle, lines: Sequence[str], separator: int, training: TrainingSettings) -> None:
        examples = Lines(lines, bundle.decoder, separator, bundle.max_positions)
        super().__init__(bundle, lines, examples, StackLoss(bundle.model), training)


class TaskLines(Lines):
    """Lines for finetuning: those of the task, or additional ones."""

    def __init__(
        self, settings: CausalSettings, request: ObjectiveInputs, training: FinetuneSettings, *, limited: bool = True
    ) -> None:
        """limited: whether the limit `training.max_train_examples` applies to these lines."""
        corpus, tokenizer = request.corpus, request.bundle.decoder
        text = corpus.text("train", corpus.text_of("decoder"))
        indices = selected_examples(len(text), training, request.seed) if limited else None
        if indices is not None:
            text = text.take(indices)
        super().__init__(text, tokenizer, separator_of(tokenizer, settings), training.max_length, training.batch_unit)
        self._corpus, self._training = corpus, training
        self.truncated = int((~self.whole).sum())
        self.texts: Mapping[SideName, Iterable[str]] = {"decoder": text}

    def loss(self, bundle: Bundle) -> StackLoss:
        set_bos_token(bundle.model, self._separator)
        return StackLoss(bundle.model, self._training.label_smoothing)

    def dev_scores(self, bundle: Bundle) -> CausalScores:
        dev = self._corpus.text("dev", self._corpus.text_of("decoder"))
        return CausalScores(bundle, list(dev[: self._training.dev_sentences]), self._separator, self._training)


def line_bits(
    bundle: Bundle,
    lines: Sequence[str],
    settings: CausalSettings,
    progress: ProgressCallback | None = None,
) -> NDArray[np.float64]:
    """Each line's bits and characters [n, 2], its end included; zeros for a line that is too long."""
    examples = Lines(lines, bundle.decoder, separator_of(bundle.decoder, settings), bundle.max_positions)
    measured = np.zeros((len(lines), 2))
    for index, nats in stack_nats(bundle, examples, examples.whole, progress):
        measured[index] = nats.sum() / log(2), count_characters([lines[index]])
    return measured


class Windows:
    """Lines of any length between separators, in windows of at most max_length tokens.

    The second half of a window is also the first half of the next one, which predicts only what follows, as in the
    sliding windows of transformers' page on perplexity.

    Attributes:
        owners: The line of each window [W].
    """

    def __init__(self, lines: Sequence[str], tokenizer: Tokenizer, separator: int, max_length: int) -> None:
        bodies = encode(lines, tokenizer).sequences
        self._examples = list[StackExample]()
        owners = list[int]()
        for line in range(len(bodies)):
            tokens = [separator, *bodies[line], separator]
            start, known = 0, 1
            while known < len(tokens):
                end = min(start + max_length, len(tokens))
                self._examples.append(shift_labels(tokens[start:end], known - start))
                owners.append(line)
                start, known = end - max_length // 2, end
        self.owners = np.array(owners)
        self.lengths: np.ndarray = np.array([len(example.tokens) for example in self._examples])
        self._padding = padding_of(tokenizer)

    def batch(self, indices: np.ndarray, epoch: int) -> StackBatch:
        del epoch
        return collate([self._examples[index] for index in indices], self._padding)


def windowed_line_bits(
    bundle: Bundle,
    lines: Sequence[str],
    settings: CausalSettings,
    progress: ProgressCallback | None = None,
) -> tuple[NDArray[np.float64], int]:
    """Each line's bits and characters [n, 2], its end included, and how many lines are longer than a window."""
    examples = Windows(lines, bundle.decoder, separator_of(bundle.decoder, settings), bundle.max_positions)
    measured = np.array([[0.0, count_characters([line])] for line in lines])
    for window, nats in stack_nats(bundle, examples, np.ones(len(examples.owners), dtype=bool), progress):
        measured[examples.owners[window], 0] += nats.sum() / log(2)
    return measured, int((np.bincount(examples.owners) > 1).sum())


def stack_nats(
    bundle: Bundle, examples: Batched, whole: np.ndarray, progress: ProgressCallback | None
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """The index of each example of `whole` [n], and the nats of its labels; ordered by length."""
    model = bundle.model

    def token_nats(batch: StackBatch) -> Tensor:
        return label_nats(model, StackStates(model, batch, ModelEmbeddings(model)).top, batch.labels)

    return WholeExamples(examples, whole, max(BATCH_TOKENS, bundle.max_positions)).nats(model, token_nats, progress)


def separator_of(tokenizer: Tokenizer, settings: CausalSettings | AnyConditionedSettings) -> int:
    """The id of the configured separator. Raises UserError if the vocabulary has no such token."""
    if settings.separator not in tokenizer.special:
        raise UserError(
            f"the vocabulary has no {settings.separator} token to stand between lines",
            hint="Set `separator: bos` or `separator: eos`, whichever it has.",
        )
    return tokenizer.special[settings.separator]


def set_bos_token(model: PreTrainedModel, separator: int) -> None:
    """Make the separator the beginning-of-text token in the model's configuration, which generation reads."""
    model.config.bos_token_id = separator


def begin_texts_as_pretrained(bundle: Bundle, objectives: Iterable[AnyObjective]) -> None:
    """Make the token that stood between the texts of a language model's pretraining the one that begins a text."""
    for objective in objectives:
        if isinstance(objective, CausalSettings):
            set_bos_token(bundle.model, separator_of(bundle.decoder, objective))


def padding_of(tokenizer: Tokenizer) -> int:
    """The padding id of batches: any id if there is no padding token, because no state and no loss depends on it."""
    return tokenizer.special.get("pad", tokenizer.special.get("eos", 0))
