"""Tsinghua's ERNIE (Zhang et al., ACL 2019): masked tokens and entities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.settings_base import Share
from subgraft.training.objectives.masked import SHORT_INPUTS, require_fractions, require_segments
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs


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
    short_inputs: Share = SHORT_INPUTS
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
    def _consistent(self) -> MaskedEntitiesSettings:
        require_segments(self.input, self.next_sentence, self.short_inputs)
        require_fractions(self)
        replaced, hidden = self.random_entities, self.hidden_entities
        if replaced + hidden > 1.0:
            raise ValueError(f"random_entities {replaced} and hidden_entities {hidden} add up to more than 1")
        return self

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.contrib.ernie_thu.masked_entities import MaskedEntitiesObjective

        return MaskedEntitiesObjective.of(self, request)
