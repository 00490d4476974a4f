"""The interface of an objective: examples in batches, a loss, dev scores, and the view that trains a generator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.config.training import FinetuneSettings, TrainingSettings
from subgraft.config.vocabularies import SamplingSettings
from subgraft.data.text.batches import evenly_spaced_places
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.documents import (
    DocumentText,
    document_texts,
    oversampled_documents,
    texts_by_document,
)
from subgraft.data.text.languages import LanguageDraws, oversampled
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.heads import require_token_head
from subgraft.modeling.precision import to_device
from subgraft.training.objectives.compute.embedding_view import IGNORED, EmbeddingView, ModelEmbeddings

Example_co = TypeVar("Example_co", covariant=True)
E = TypeVar("E")


class Examples(Protocol[Example_co]):
    """A source of examples, each a function of (seed, epoch, index)."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> np.ndarray:
        """The cost of each example in a batch [n]: its tokens, or those of the longer of two sides."""
        ...

    def example(self, index: int, epoch: int) -> Example_co: ...


class TokenBatch(Protocol):
    """A padded batch. labels: [B, T], IGNORED where nothing is predicted."""

    @property
    def labels(self) -> Tensor: ...

    @property
    def counts(self) -> Mapping[str, int]: ...

    @property
    def shape(self) -> tuple[int, int]: ...

    def to(self, device: torch.device | str) -> TokenBatch: ...


class PaddedBatch:
    """A batch whose dataclass has only tensors."""

    labels: Tensor

    @property
    def counts(self) -> dict[str, int]:
        return {"loss": int((self.labels != IGNORED).sum())}

    def to(self, device: torch.device | str) -> Self:
        return type(self)(*(to_device(tensor, device) for tensor in vars(self).values()))


def pad(sequences: Sequence[Sequence[int] | np.ndarray], value: int) -> Tensor:
    """Sequences as one tensor [B, T], padded on the right."""
    longest = max(len(tokens) for tokens in sequences)
    padded = np.full((len(sequences), longest), value, dtype=np.int64)
    for row, tokens in enumerate(sequences):
        padded[row, : len(tokens)] = tokens
    return torch.from_numpy(padded)


def pad_with_mask(sequences: Sequence[Sequence[int] | np.ndarray], value: int) -> tuple[Tensor, Tensor]:
    """Padded sequences, and their attention mask: int64 [B, T] each."""
    padded, lengths = pad(sequences, value), torch.tensor([len(tokens) for tokens in sequences])
    return padded, (torch.arange(padded.shape[1]) < lengths[:, None]).long()


class States(Protocol):
    """Hidden states of a batch, computed on access.

    top: the states [B, T, d] from which labels are predicted.
    """

    @property
    def top(self) -> Tensor: ...

    def of(self, name: SideName) -> Tensor:
        """The top states of the stack that reads a side's ids."""
        ...

    def of_original(self, batch: Any) -> States:
        """The states of the original batch under the model's own embeddings.

        The original batch may differ from this one only on the side that the view extends. The states of the other side
        are reused.
        """
        ...


@dataclass(frozen=True)
class Body:
    """The text of one side of an example, without the special tokens around it.

    Attributes:
        tokens: the ids of the text.
        start: the index of the first one among the labels of a causal stack, or among the inputs of another stack.
        around: the number of special tokens of the side.
    """

    tokens: list[int]
    start: int
    around: int


class GeneratorView(Protocol[E]):
    """An objective's examples for training a generator, which changes the body of one side.

    side: the side whose embeddings are generated.  causal: whether a token is predicted one position before it is read.
    """

    side: SideName
    causal: bool

    @property
    def lengths(self) -> np.ndarray: ...

    def original(self, index: int, epoch: int) -> E:
        """The example without hidden tokens."""
        ...

    def body(self, example: E) -> Body: ...

    def rebuild(self, example: E, body: list[int]) -> E:
        """The example with another body."""
        ...

    def corrupt(self, example: E, rng: np.random.Generator) -> E:
        """The input from which the model predicts the example: the example itself, or a copy with hidden tokens."""
        del rng
        return example

    def collate(self, examples: Sequence[E]) -> Any: ...

    def states(self, model: PreTrainedModel, batch: Any, embedding_view: EmbeddingView) -> States: ...

    @property
    def sequence_weights(self) -> Mapping[str, float]:
        """The weights of the objective's losses on sequences, which predict no tokens, by name; by default none."""
        return {}

    def sequence_losses(self, model: PreTrainedModel, states: Any, batch: Any) -> dict[str, Tensor]:
        """The sums of the losses on sequences."""
        del model, states, batch
        return {}


class ObjectiveLoss(nn.Module):
    """A module that maps a batch to named sums, among them `loss`. The batch has the count of each.

    model: the model.  weights: the weight of each named loss.
    has_own_head: whether the model has a head for this loss, which is saved next to the pretrained model.
    """

    model: Any
    has_own_head: bool = False
    weights: Mapping[str, float] = {"loss": 1.0}

    def used(self) -> Iterable[nn.Parameter]:
        """The parameters that every batch uses."""
        return self.parameters()


class Objective(Protocol):
    """An objective on one model and its text, which is also the data of a training.

    select: the dev score that selects the best weights; None selects the last.  lower_is_better: of this score.
    """

    select: str | None
    lower_is_better: bool

    @property
    def lengths(self) -> np.ndarray: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Any: ...

    def loss(self, label_smoothing: float) -> ObjectiveLoss:
        """The loss of a batch, under the model's own embeddings."""
        ...

    def view(self, name: SideName) -> GeneratorView[Any]:
        """The view that trains a generator of a side's embeddings."""
        ...

    def dev_scores(self) -> Callable[[], dict[str, float]] | None:
        """A function that scores the current model on dev text, if the objective has one."""
        ...


class LastWeights:
    """Base of objectives whose last weights are selected; by default they have no dev scores."""

    select: str | None = None
    lower_is_better = False

    def dev_scores(self) -> Callable[[], dict[str, float]] | None:
        return None


@dataclass(frozen=True)
class ObjectiveInputs:
    """The inputs of an objective.

    sampling: the settings by which segmentations are sampled; None for the plain segmentation.
    language_exponent: α of p^α, by which languages are sampled; None takes each text once.
    further: the corpora of single objectives, by kind.
    task: the index of the objective in the training, and of its embedding in models that have such embeddings.
    """

    bundle: Bundle
    corpus: Corpus
    languages: Languages
    training: TrainingSettings
    seed: int
    sampling: SamplingSettings | None = None
    language_exponent: float | None = None
    further: Mapping[str, Corpus] = field(default_factory=dict)
    task: int = 0

    def texts(self, split: str = "train") -> Iterator[tuple[str, Sequence[str]]]:
        """Each language of the corpus with its lines, repeated if the language is oversampled."""
        if self.language_exponent is None:
            return self.corpus.texts(split)
        return oversampled(list(self.corpus.texts(split)), self.language_exponent)

    def documents(self, split: str = "train") -> Iterator[DocumentText]:
        """The text of each language by documents. Raises UserError for a corpus without documents."""
        if self.language_exponent is None:
            return document_texts(self.corpus, split)
        return oversampled_documents(list(document_texts(self.corpus, split)), self.language_exponent)

    def texts_by_document(self, split: str = "train") -> Iterator[DocumentText]:
        """Each language once with its documents; a text without documents counts as one."""
        return texts_by_document(self.corpus, split)

    def draws(self, texts: Sequence[tuple[str, int]]) -> LanguageDraws | None:
        """The sampling of examples from texts. texts: the language and the number of examples of each."""
        if self.language_exponent is None:
            return None
        languages, sizes = zip(*texts, strict=True)
        return LanguageDraws(languages, sizes, self.language_exponent, self.seed)


class HeldOut(ObjectiveInputs):
    """The inputs of an objective on the first dev sentences of each language."""

    def texts(self, split: str = "dev") -> Iterator[tuple[str, Sequence[str]]]:
        del split
        return ((language, lines[: self.training.dev_sentences]) for language, lines in self.corpus.texts("dev"))

    def documents(self, split: str = "dev") -> Iterator[DocumentText]:
        del split
        for text in document_texts(self.corpus, "dev"):
            yield text.take(np.flatnonzero(text.starts[:-1] < self.training.dev_sentences))

    def texts_by_document(self, split: str = "dev") -> Iterator[DocumentText]:
        del split
        for text in texts_by_document(self.corpus, "dev"):
            starts = np.unique(np.minimum(text.starts, self.training.dev_sentences))
            lines, documents = text.lines[: starts[-1]], text.documents[: len(starts) - 1]
            yield text._replace(lines=lines, starts=starts, documents=documents)


class TrainedText(Protocol):
    """Examples of text to train on.

    truncated: number of truncated examples.  texts: the lines that each side of the model reads or writes.
    """

    @property
    def truncated(self) -> int: ...

    @property
    def texts(self) -> Mapping[SideName, Iterable[str]]: ...

    @property
    def lengths(self) -> np.ndarray: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Any: ...


class TaskText(TrainedText, Protocol):
    """The data of a finetuning. Both phases of a two-phase finetuning share it, so models are passed as arguments."""

    def loss(self, bundle: Bundle) -> nn.Module: ...

    def dev_scores(self, bundle: Bundle) -> Callable[[], dict[str, float]]: ...


def selected_examples(size: int, training: FinetuneSettings, seed: int) -> np.ndarray | None:
    """The indices of the training examples, ascending; None for all of them.

    Args:
        size: the number of available examples.
        training: the settings, with the maximum number of examples.
        seed: the seed of a random selection.
    """
    count = training.max_train_examples
    if count is None or count >= size:
        return None
    if training.resample_subset:
        return np.sort(np.random.default_rng(seed).choice(size, count, replace=False))
    return evenly_spaced_places(size, count)


class TokenLoss(ObjectiveLoss):
    """Label-smoothed cross entropy of a model's predictions, summed over the tokens to predict.

    Raises UserError for a model with a classifying head, which predicts none.
    """

    model: PreTrainedModel

    def __init__(self, model: PreTrainedModel, label_smoothing: float = 0.0) -> None:
        super().__init__()
        require_token_head(model)
        self.model = model
        self.label_smoothing = label_smoothing

    def states(self, batch: Any, embedding_view: EmbeddingView) -> States:
        raise NotImplementedError

    def forward(self, batch: Any) -> dict[str, Tensor]:
        return self.by(ModelEmbeddings(self.model), batch)

    def by(self, embedding_view: EmbeddingView, batch: Any) -> dict[str, Tensor]:
        """The loss of a batch under another view of the embeddings than the model's own."""
        return {
            "loss": embedding_view.cross_entropy(
                self.states(batch, embedding_view).top, batch.labels, self.label_smoothing
            )
        }


class Concatenation(Generic[E]):
    """Several sources of examples as one, for example the languages of mBART.

    With `draws`, examples have the numbers of `draws`, and an epoch has only those that are drawn.
    """

    def __init__(self, parts: Sequence[Examples[E]], draws: LanguageDraws | None = None) -> None:
        self._parts, self.draws = parts, draws
        self._ends = np.cumsum([len(part) for part in parts])

    def __len__(self) -> int:
        return int(self._ends[-1]) if self.draws is None else len(self.draws)

    @property
    def lengths(self) -> np.ndarray:
        lengths = [part.lengths for part in self._parts]
        return np.concatenate(lengths) if self.draws is None else self.draws.numbered(lengths)

    def example(self, index: int, epoch: int) -> E:
        if self.draws is not None:
            draw = self.draws.at(index, epoch)
            return self._parts[draw.text].example(draw.place, draw.epoch)
        part, before = part_of(self._ends, index)
        return self._parts[part].example(index - before, epoch)


def part_of(ends: np.ndarray, index: int) -> tuple[int, int]:
    """The part of an example of several parts, numbered one after another, and the number of examples before that part.

    ends: the number of examples up to the end of each part.
    """
    part = int(np.searchsorted(ends, index, side="right"))
    return part, int(ends[part - 1]) if part else 0


class ExampleData(Generic[E]):
    """The base of data that consists of examples: their lengths, and the examples of an epoch."""

    _examples: Examples[E]

    @property
    def lengths(self) -> np.ndarray:
        return self._examples.lengths

    @property
    def draws(self) -> LanguageDraws | None:
        """Which examples an epoch has; all if None."""
        return draws_of(self._examples)


def draws_of(examples: object) -> LanguageDraws | None:
    """How examples are drawn by language, if they are."""
    draws: LanguageDraws | None = getattr(examples, "draws", None)
    return draws
