"""ERNIE's dialogues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.settings_base import Share
from subgraft.training.objectives.masked import require_fractions
from subgraft.training.objectives.objective import AnyObjective

if TYPE_CHECKING:
    from subgraft.training.objectives.compute.interface import Objective, Request


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

    def pretraining(self, request: Request) -> Objective:
        from subgraft.training.objectives.compute.dialogue import DialogueObjective

        return DialogueObjective(self, request)
