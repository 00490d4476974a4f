"""What every objective is: examples in batches, a loss, what selects the best weights, and its view for a generator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.config.training import TrainingSettings
from subgraft.config.vocabularies import SamplingSettings
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.languages import oversampled
from subgraft.modeling.bundle import Bundle
from subgraft.training.objectives.embedding_view import EmbeddingView, ModelEmbeddings

Example_co = TypeVar("Example_co", covariant=True)
E = TypeVar("E")


class Examples(Protocol[Example_co]):
    """A source of examples, each a function of (seed, epoch, index)."""

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> np.ndarray:
        """What each example costs in a batch [n]: its tokens, those of the longer side where it has two."""
        ...

    def example(self, index: int, epoch: int) -> Example_co: ...


class TokenBatch(Protocol):
    """A padded batch: labels [B, T], IGNORED where nothing is predicted."""

    @property
    def labels(self) -> Tensor: ...

    @property
    def counts(self) -> Mapping[str, int]: ...

    @property
    def shape(self) -> tuple[int, int]: ...

    def to(self, device: torch.device | str) -> TokenBatch: ...


class States(Protocol):
    """Hidden states of a batch, computed when they are asked for.

    top: those that labels are predicted from [B, T, d].
    """

    @property
    def top(self) -> Tensor: ...

    def of(self, name: SideName) -> Tensor:
        """Top states of the stack that reads a side's ids."""
        ...

    def of_original(self, batch: Any) -> States:
        """Of a batch that differs from this one only on the side that its lexicon extends, read by the model's own
        tables; what cannot differ is not computed again."""
        ...


@dataclass(frozen=True)
class Body:
    """The tokens of an example's side that are text, without what its family puts around them.

    begins: where the first one is among the labels of a causal stack, or among the inputs of another.  around: how many
    more tokens than these the side has.
    """

    tokens: list[int]
    begins: int
    around: int


class GeneratorView(Protocol[E]):
    """An objective's examples as a generator is trained on them: one side's body is changed, and the rest stays.

    side: whose table gets generated rows.  causal: whether a token's state, where it is read, stands one place behind
    the place where it is predicted.
    """

    side: SideName
    causal: bool

    @property
    def lengths(self) -> np.ndarray: ...

    def original(self, index: int, epoch: int) -> E:
        """The example with nothing hidden by the model's own reading."""
        ...

    def body(self, example: E) -> Body: ...

    def rebuilt(self, example: E, body: list[int]) -> E:
        """The example around another body."""
        ...

    def corrupted(self, example: E, rng: np.random.Generator) -> E:
        """What the model reads in order to predict the example: the example itself, unless some of it is hidden."""
        ...

    def collate(self, examples: Sequence[E]) -> Any: ...

    def states(self, model: PreTrainedModel, batch: Any, embedding_view: EmbeddingView) -> States: ...


class Objective(Protocol):
    """An objective on one model and its text; it is the data of a training.

    select: the dev score that picks the best weights; None where the last are kept.  lowest: whether the least of these
    scores is the best.
    """

    select: str | None
    lowest: bool

    @property
    def lengths(self) -> np.ndarray: ...

    def batch(self, indices: np.ndarray, epoch: int) -> Any: ...

    def loss(self, label_smoothing: float) -> nn.Module:
        """What maps a batch to a named sum, `loss`; it holds the model as `model`."""
        ...

    def view(self, name: SideName) -> GeneratorView[Any]:
        """For a generator of rows of a side's table."""
        ...

    def dev_scores(self) -> Callable[[], dict[str, float]] | None:
        """What scores the model as it stands on held-out text, where that is done."""
        ...


@dataclass(frozen=True)
class Request:
    """What an objective is made from. sampling: how segmentations are sampled, where they are.

    language_exponent: α of p^α, by which languages are drawn; None takes each text once.
    """

    bundle: Bundle
    corpus: Corpus
    languages: Languages
    training: TrainingSettings
    seed: int
    sampling: SamplingSettings | None = None
    language_exponent: float | None = None

    def texts(self, split: str = "train") -> Iterator[tuple[str, Sequence[str]]]:
        """Each language of the corpus, with its lines, which come again where the language is oversampled."""
        if self.language_exponent is None:
            return self.corpus.texts(split)
        return oversampled(list(self.corpus.texts(split)), self.language_exponent)


class HeldOut(Request):
    """The same for the first dev sentences of each language."""

    def texts(self, split: str = "dev") -> Iterator[tuple[str, Sequence[str]]]:
        del split
        return ((language, lines[: self.training.dev_sentences]) for language, lines in self.corpus.texts("dev"))


class TokenLoss(nn.Module):
    """Label-smoothed cross entropy of a model's predictions, summed over the tokens to predict."""

    def __init__(self, model: PreTrainedModel, label_smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self.label_smoothing = label_smoothing

    def states(self, batch: Any, embedding_view: EmbeddingView) -> States:
        raise NotImplementedError

    def forward(self, batch: Any) -> dict[str, Tensor]:
        return self.by(ModelEmbeddings(self.model), batch)

    def by(self, embedding_view: EmbeddingView, batch: Any) -> dict[str, Tensor]:
        """The loss of a batch as it is read and predicted by other tables than the model's own."""
        return {
            "loss": embedding_view.cross_entropy(
                self.states(batch, embedding_view).top, batch.labels, self.label_smoothing
            )
        }
