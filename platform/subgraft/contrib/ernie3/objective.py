"""ERNIE 3's prediction from triples and the texts that state them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.settings_base import Share
from subgraft.training.objectives.masked import require_fractions
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.training.objectives.compute.interface import Objective, ObjectiveInputs


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
        require_fractions(self)
        return self

    def pretraining(self, request: ObjectiveInputs) -> Objective:
        from subgraft.contrib.ernie3.knowledge_text import predict_from_triples

        return predict_from_triples(self, request)
