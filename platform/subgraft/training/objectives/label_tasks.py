"""The tasks of labels of ERNIE 2 (Sun et al., AAAI 2020): a model is pretrained on several of them at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.training.objectives.compute.interface import Objective, Request


class LabelTaskSettings(AnyObjective):
    """A task of ERNIE 2 (Sun et al., AAAI 2020, section 4.2), with a head of its own that predicts labels.

    token_level: whether it labels tokens; if not, it labels texts, from the state of [CLS].
    """

    writes = False
    predicts_tokens = False
    token_level: ClassVar[bool] = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes."""
        raise NotImplementedError

    def pretraining(self, request: Request) -> Objective:
        from subgraft.training.objectives.compute.label_objective import TaskObjective

        return TaskObjective(self, request)


class CapitalisationSettings(LabelTaskSettings):
    """Whether each word of a line in lower case was capitalised."""

    kind: Literal["capitalisation"] = "capitalisation"

    head = "capitalisation"
    token_level = True

    @property
    def labels(self) -> tuple[str, ...]:
        return ("lower", "capital")


class TokenDocumentSettings(LabelTaskSettings):
    """Whether each token of a block of sentences also occurs in other blocks of its document."""

    kind: Literal["token-document"] = "token-document"

    head = "token-document"
    needs_documents = True
    token_level = True

    @property
    def labels(self) -> tuple[str, ...]:
        return ("here", "elsewhere")


class ReorderingSettings(LabelTaskSettings):
    """The order of a block's segments, which are shuffled: one of 1! + 2! + … + m! classes.

    segments: m, the maximum number of segments; their number is drawn uniformly.
    """

    kind: Literal["sentence-reordering"] = "sentence-reordering"
    segments: Annotated[int, Field(ge=2, le=5)] = 3

    head = "sentence-reordering"
    needs_documents = True

    @property
    def labels(self) -> tuple[str, ...]:
        count = sum(math.factorial(size) for size in range(1, self.segments + 1))
        return tuple(f"order {number}" for number in range(count))


class DistanceSettings(LabelTaskSettings):
    """Whether two sentences are adjacent, of the same document, or of two documents."""

    kind: Literal["sentence-distance"] = "sentence-distance"

    head = "sentence-distance"
    needs_documents = True

    @property
    def labels(self) -> tuple[str, ...]:
        return ("adjacent", "same document", "other document")


class PairTaskSettings(LabelTaskSettings):
    """A class of each pair of texts of a labelled corpus.

    corpus: a name in `corpora`, with labelled pairs.
    """

    corpus: str

    @property
    def labels(self) -> tuple[str, ...]:
        """Empty: the corpus, which has not been read, determines the classes."""
        return ()


class DiscourseSettings(PairTaskSettings):
    """The discourse relation of two sentences."""

    kind: Literal["discourse-relation"] = "discourse-relation"

    head = "discourse-relation"


class RelevanceSettings(PairTaskSettings):
    """How relevant a title is for a query: in the paper strongly, weakly or not at all."""

    kind: Literal["relevance"] = "relevance"

    head = "relevance"
