"""Settings of ERNIE 1 and 2 (Sun et al., 2019, and AAAI 2020): knowledge masking, dialogues, and tasks of labels."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import LARGEST_COUNT
from subgraft.config.settings_base import Settings

UnitName = Literal["piece", "word", "phrase", "entity"]
Frequency = Annotated[float, Field(ge=0)]


class UnitStage(Settings):
    """What is hidden as a whole from a given step on: each sentence has units of one kind, drawn by these frequencies.

    step: the number of updates before it applies.
    piece: frequency of single tokens.
    word: frequency of words.
    phrase: frequency of phrases, and of the words outside of them.
    entity: frequency of entities, and of the words outside of them.
    """

    step: Annotated[int, Field(ge=0, le=LARGEST_COUNT)] = 0
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
