"""What every group of settings is made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Split = Literal["train", "dev", "test"]
SideName = Literal["encoder", "decoder"]
# Of a pair.
TextSide = Literal["source", "target"]
VocabularyKind = Literal["unigram", "bpe", "wordpiece"]
MetricName = Literal["BLEU", "chrF", "TER", "ROUGE-L", "METEOR"]
StaticAlgorithm = Literal["skip-gram", "cbow", "fasttext"]
# Of as many bits as everything that draws from one takes.
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]


class Settings(BaseModel):
    """Base of every group of settings: frozen, and unknown fields are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")
