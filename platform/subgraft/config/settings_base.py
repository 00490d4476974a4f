"""The base class of every group of settings, and the types that several groups share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from subgraft.base.limits import LARGEST_COUNT

Split = Literal["train", "dev", "test"]
SideName = Literal["encoder", "decoder"]
# Of a pair.
TextSide = Literal["source", "target"]
VocabularyKind = Literal["unigram", "bpe", "wordpiece", "byte-level-bpe"]
# What becomes of the upstream vocabulary: another takes its place, it gets further subwords, or loses some.
VocabularyMode = Literal["replace", "extend", "trim"]
# Those of characters, which may spell others in bytes, and be drawn from.
SENTENCEPIECE_KINDS: tuple[VocabularyKind, ...] = ("unigram", "bpe")
MetricName = Literal["BLEU", "chrF", "TER", "ROUGE-L", "METEOR"]
# Those that are measured where they are asked for, or where a task has them.
FurtherMetricName = Literal["ROUGE-1", "ROUGE-2", "CIDEr"]
# What runs the search that writes texts.
DecodingEngine = Literal["transformers", "ctranslate2"]
EngineSetting = Literal["auto", "transformers", "ctranslate2"]
StaticAlgorithm = Literal["skip-gram", "cbow", "fasttext"]
# Of as many bits as everything that draws from one takes.
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
# Of anything; what is held in memory at once has less.
Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]


class Settings(BaseModel):
    """Base of every group of settings: frozen; unknown fields, infinity and NaN are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
