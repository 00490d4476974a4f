"""Settings of synthetic pairs, made from a domain's monolingual text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import LARGEST_BEAM
from subgraft.config.settings_base import Count, DecodingEngine, EngineSetting, Settings, named_engine

# How finetuning uses `downstream.text`, in addition to the task's own text.
TextUse = Literal["copied", "back-translated", "denoised", "lines"]
# Those that are pairs, made of target text.
MADE_PAIRS: frozenset[TextUse] = frozenset({"copied", "back-translated"})

# Rounds of back-translation.
Rounds = Annotated[int, Field(ge=1, le=100)]
# The tag before back-translated sources, if configured.
TAG = "<BT>"


class CopiedTextSettings(Settings):
    """Target text with a copy of it as its source (Currey et al. 2017), for systems of `text: copied`.

    drop: the fraction of words that the copy leaves out.
    """

    drop: Annotated[float, Field(ge=0, lt=1)] = 0.3


class BackTranslationSettings(Settings):
    """Target text with its translation by a reverse model as its source (Sennrich et al. 2016).

    With several rounds, downstream.text.source is translated too, and trains the next reverse model (Hoang et al.
    2018). All of them start from the model that the first ones started from. They read, next to the pairs, text that
    the models of the round before translated.

    rounds: rounds of translation; systems read the text of the last one.
    model: a directory or a hub id of a model from target to source language. By default one is pretrained and finetuned
    here, on the reversed corpora.
    beam: beam size; 1 is greedy search.
    sample: whether tokens are sampled, in place of search (Edunov et al. 2018).
    engine: the search engine, as in `evaluation`; samples are drawn by transformers.
    batch_size: the number of sentences translated at a time.
    max_length_ratio: the most bytes of an output for each byte of the text.
    tag: whether `<BT>` precedes each such source (Caswell et al. 2019), as text that the encoder's vocabulary must
    spell.
    """

    rounds: Rounds = 1
    model: str | None = None
    beam: Annotated[int, Field(ge=1, le=LARGEST_BEAM)] = 1
    sample: bool = False
    engine: EngineSetting = "auto"
    batch_size: Count = 64
    max_length_ratio: Annotated[float, Field(gt=0)] = 3.0
    tag: bool = False

    @model_validator(mode="after")
    def _searched_or_drawn(self) -> BackTranslationSettings:
        if self.sample and self.beam > 1:
            raise ValueError("sample: true draws tokens, and nothing is searched: leave out beam")
        return self

    @property
    def named_engine(self) -> DecodingEngine:
        """The engine that translates here."""
        return "transformers" if self.sample else named_engine(self.engine)
