"""The dialogues of ERNIE 1, and the tasks of ERNIE 2 that predict labels, several of which pretrain one model."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from subgraft.config.settings_base import Share
from subgraft.training.objectives.masked import require_fractions
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs


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

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.contrib.ernie.label_objective import TaskObjective

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
    def own_corpus(self) -> str:
        return self.corpus

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


class DialogueSettings(AnyObjective):
    """Dialogue language modelling (ERNIE 1, section 3.3): hidden tokens of three turns of a conversation, and whether
    one of the turns is of another one.

    share, masked, random: as for `masked`.
    """

    kind: Literal["dialogue"] = "dialogue"
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.15
    masked: Share = 0.8
    random: Share = 0.1

    writes = False
    predicts_tokens = False
    needs_mask = True
    needs_conversations = True
    head = "dialogue"

    @model_validator(mode="after")
    def _shares_add_up(self) -> DialogueSettings:
        require_fractions(self)
        return self

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.contrib.ernie.dialogue import DialogueObjective

        return DialogueObjective(self, request)
