"""Settings of a new XLNet."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from subgraft.config.model_shapes import OneStackSettings
from subgraft.config.settings_base import SENTENCEPIECE_KINDS, Share


class XLNetSettings(OneStackSettings):
    """An encoder with relative positions and two streams of states, for tasks with labels: it generates no text.

    max_positions: the longest text; the model itself has no limit.
    dropout: one rate for the complete model.
    """

    objectives = frozenset({"permutation", "masked"})
    vocabulary_kinds = SENTENCEPIECE_KINDS
    assembles = False

    family: Literal["xlnet"] = "xlnet"
    dropout: Share = 0.1

    @model_validator(mode="after")
    def _one_rate(self) -> XLNetSettings:
        if self.attention_dropout:
            raise ValueError("an XLNet has one dropout for the complete model: set only `dropout`")
        if self.d_model % 2:
            raise ValueError(f"d_model {self.d_model}: positions are sines and cosines, so it must be even")
        return self
