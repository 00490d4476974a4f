"""Settings of what is made of a domain's text: pairs whose target, or source, a person never wrote."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import LARGEST_BEAM
from subgraft.config.settings_base import Count, Settings

# What a finetuning reads of `downstream.text` beside the task's own text.
TextUse = Literal["copied", "back-translated", "denoised", "lines"]
# Those that are pairs, made of target text.
MADE_PAIRS: frozenset[TextUse] = frozenset({"copied", "back-translated"})

# What stands before sources that were translated back, where that is asked for.
TAG = "<BT>"


class CopiedTextSettings(Settings):
    """Target text with a copy of it as its source (Currey et al. 2017), for systems of `text: copied`.

    drop: the share of words that the copy leaves out, so that the model cannot do without what it knows of the text.
    """

    drop: Annotated[float, Field(ge=0, lt=1)] = 0.3


class BackTranslationSettings(Settings):
    """Target text with what a model of the other direction makes of it as its source (Sennrich et al. 2016).

    model: a directory or a hub id of a model from the task's target language to its source language. Where none is
    given, one is trained here: pretrained on the upstream corpus and finetuned on the task's pairs, both reversed.
    beam: hypotheses that search keeps; 1 is greedy search.
    sample: whether the tokens of a translation are drawn, each by its probability, and nothing is searched (Edunov et
    al. 2018).
    batch_size: sentences that are translated at once.
    max_length_ratio: bytes of output for each byte of the text at which a translation is ended.
    tag: whether `<BT>` stands before each such source, as text that the encoder's vocabulary must be able to spell
    (Caswell et al. 2019).
    """

    model: str | None = None
    beam: Annotated[int, Field(ge=1, le=LARGEST_BEAM)] = 1
    sample: bool = False
    batch_size: Count = 64
    max_length_ratio: Annotated[float, Field(gt=0)] = 3.0
    tag: bool = False

    @model_validator(mode="after")
    def _searched_or_drawn(self) -> BackTranslationSettings:
        if self.sample and self.beam > 1:
            raise ValueError("sample: true draws tokens, and nothing is searched: leave out beam")
        return self
