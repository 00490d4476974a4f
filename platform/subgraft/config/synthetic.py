"""Settings of what is made of a domain's text: pairs whose target, or source, a person never wrote."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from subgraft.config.base import Settings

# What a finetuning reads of `downstream.text` beside the task's own text.
TextUse = Literal["copied", "denoised", "lines"]
# Those that are pairs, made of target text.
MADE_PAIRS: frozenset[TextUse] = frozenset({"copied"})


class CopiedTextSettings(Settings):
    """Target text with a copy of it as its source (Currey et al. 2017), for systems of `text: copied`.

    drop: the share of words that the copy leaves out, so that the model cannot do without what it knows of the text.
    """

    drop: Annotated[float, Field(ge=0, lt=1)] = 0.3
