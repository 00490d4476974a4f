"""Settings of the objectives of ERNIE, Baidu's and Tsinghua's: tasks that need to know what words are about.

Baidu's ERNIE 1 and 2 (Sun et al., 2019, and AAAI 2020) have knowledge masking, dialogues and tasks of labels.
Tsinghua's (Zhang et al., ACL 2019) and ERNIE 3 (Sun et al., 2021) learn from text whose entities or triples are named.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_COUNT
from subgraft.config.any_objective import AnyObjective
from subgraft.config.settings_base import Settings, Share

UnitName = Literal["piece", "word", "phrase", "entity"]
Frequency = Annotated[float, Field(ge=0)]


class UnitStage(Settings):
    """The units that are masked whole from a step on: each sentence has units of one kind, drawn by these frequencies.

    step: the number of updates before it applies.
    piece: frequency of single tokens.
    word: frequency of words.
    phrase: frequency of phrases, and of the words outside of them.
    entity: frequency of entities, and of the words outside of them.
    """

    step: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    piece: Frequency = 0.0
    word: Frequency = 0.0
    phrase: Frequency = 0.0
    entity: Frequency = 0.0

    @property
    def frequencies(self) -> dict[UnitName, float]:
        """The share of each unit that occurs."""
        named: dict[UnitName, float] = {
            "piece": self.piece,
            "word": self.word,
            "phrase": self.phrase,
            "entity": self.entity,
        }
        total = sum(named.values())
        return {name: frequency / total for name, frequency in named.items() if frequency}

    @model_validator(mode="after")
    def _something(self) -> UnitStage:
        if not self.frequencies:
            raise ValueError("give at least one of piece, word, phrase, entity")
        return self


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
        if self.masked + self.random > 1.0:
            raise ValueError(f"masked {self.masked} and random {self.random} add up to more than 1")
        return self


class LabelTaskSettings(AnyObjective):
    """A task of ERNIE 2 (Sun et al., AAAI 2020, section 4.2), with a head of its own that predicts labels.

    token_level: whether it labels tokens; if not, it labels texts, from the state of [CLS].
    """

    if TYPE_CHECKING:
        kind: str  # each task has its own

    writes = False
    predicts_tokens = False
    token_level: ClassVar[bool] = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes."""
        raise NotImplementedError


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


class MaskedEntitiesSettings(AnyObjective):
    """The objectives of Tsinghua's ERNIE (Zhang et al., ACL 2019, section 3.4) on a text whose corpus names its
    entities: hidden tokens, the entity of a token among those of its text (dEA), and next sentences.

    spans: the field of the corpus with entities, named spans of a text; by default its only one.
    input, next_sentence, short_inputs: as in the objective masked; the paper has segment pairs and next sentences.
    share, masked, random: of tokens, as in the objective masked.
    random_entities: the fraction of entities that are replaced by others, which the model must correct.
    hidden_entities: the fraction of entities that are hidden from the model, which must predict them.
    entity_weight: the weight of the entities' loss; 0 predicts tokens alone.
    """

    kind: Literal["masked-entities"] = "masked-entities"
    spans: str | None = None
    input: Literal["sentences", "segment-pair", "sentence-pair"] = "sentences"
    next_sentence: bool | None = None
    short_inputs: Share = 0.1
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.15
    masked: Share = 0.8
    random: Share = 0.1
    random_entities: Share = 0.05
    hidden_entities: Share = 0.15
    entity_weight: Annotated[float, Field(ge=0)] = 1.0

    needs_mask = True
    needs_annotation = "spans"
    writes = False

    @property
    def needs_documents(self) -> bool:  # type: ignore[override]
        return self.input != "sentences"

    @property
    def predicts_next(self) -> bool:  # type: ignore[override]
        return self.needs_documents if self.next_sentence is None else self.next_sentence

    @property
    def head(self) -> str:  # type: ignore[override]
        return "tokens, entities and next sentence" if self.predicts_next else "tokens and entities"

    @model_validator(mode="after")
    def _pairs_have_a_second_segment(self) -> MaskedEntitiesSettings:
        if self.next_sentence and not self.needs_documents:
            raise ValueError(f"next_sentence needs `input: segment-pair` or `sentence-pair`, not {self.input}")
        if self.short_inputs != type(self).model_fields["short_inputs"].default and self.input != "segment-pair":
            raise ValueError("short_inputs applies to segment pairs only: write `input: segment-pair`")
        return self

    @model_validator(mode="after")
    def _shares_add_up(self) -> MaskedEntitiesSettings:
        for one, two in (("masked", "random"), ("random_entities", "hidden_entities")):
            if getattr(self, one) + getattr(self, two) > 1.0:
                raise ValueError(f"{one} {getattr(self, one)} and {two} {getattr(self, two)} add up to more than 1")
        return self


class KnowledgeTextSettings(AnyObjective):
    """ERNIE 3's universal knowledge-text prediction (Sun et al., 2021, section 3.2): a triple and a text that states it
    are read together, and either the triple's relation is hidden or words of the text.

    triples: the field of the corpus with the triples of a text; by default its only one.
    relation_share: the fraction of examples whose relation is hidden, all of its tokens.
    share, masked, random: of the text's tokens in all others, as in the objective masked.
    """

    kind: Literal["knowledge-text"] = "knowledge-text"
    triples: str | None = None
    relation_share: Share = 0.5
    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.15
    masked: Share = 0.8
    random: Share = 0.1

    needs_mask = True
    needs_annotation = "triples"
    writes = False

    @model_validator(mode="after")
    def _shares_add_up(self) -> KnowledgeTextSettings:
        if self.masked + self.random > 1.0:
            raise ValueError(f"masked {self.masked} and random {self.random} add up to more than 1")
        return self
