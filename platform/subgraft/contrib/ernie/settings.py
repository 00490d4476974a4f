"""Settings of a new ERNIE 1 or 2."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from subgraft.config.model_shapes import OneStackSettings
from subgraft.config.settings_base import Share


class ErnieSettings(OneStackSettings):
    """ERNIE 1 or 2: a BERT with more segments and with embeddings of objectives.

    dropout: dropout of embeddings and of the output of each sublayer.
    segments: the number of segment embeddings.
    task_embeddings: the number of embeddings of objectives (ERNIE 2), which follow the order of upstream.objectives;
    finetuning has the first. 0 for none.
    """

    objectives = frozenset(
        {
            "masked",
            "dialogue",
            "capitalisation",
            "token-document",
            "sentence-reordering",
            "sentence-distance",
            "discourse-relation",
            "relevance",
        }
    )
    vocabulary_kinds = ("wordpiece",)

    family: Literal["ernie"] = "ernie"
    dropout: Share = 0.1
    segments: Annotated[int, Field(ge=3, le=16)] = 4
    task_embeddings: Annotated[int, Field(ge=0, le=64)] = 0

    @property
    def objective_embeddings(self) -> int:
        return self.task_embeddings

    @property
    def predicts_next(self) -> bool:
        return True
