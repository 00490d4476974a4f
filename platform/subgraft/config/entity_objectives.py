"""Settings of objectives on text whose entities are named."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.any_objective import AnyObjective
from subgraft.config.settings_base import Share


class MaskedEntitiesSettings(AnyObjective):
    """The objectives of Tsinghua's ERNIE (Zhang et al., ACL 2019, section 3.4) on a text whose corpus names its
    entities: hidden tokens, the entity of a token among those of its text (dEA), and next sentences.

    spans: the field of the corpus with entities, named spans of a text; by default its only one.
    input, next_sentence, short_inputs: as in the objective masked; the paper has segment pairs and next sentences.
    share, masked, random: of tokens, as in the objective masked.
    random_entities: the fraction of entities that are replaced by others, to be corrected.
    hidden_entities: the fraction of entities that the model does not read, to be found.
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
            raise ValueError("short_inputs are segment pairs: it needs `input: segment-pair`")
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
