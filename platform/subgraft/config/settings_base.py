"""The base class of every group of settings, and the types that several groups share."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field

from subgraft.base.limits import MAX_COUNT, MAX_SEQUENCE_LENGTH

Split = Literal["train", "dev", "test"]
SideName = Literal["encoder", "decoder"]
TextSide = Literal["source", "target"]  # of a pair
OTHER_SIDE: Mapping[TextSide, TextSide] = {"source": "target", "target": "source"}
VocabularyKind = Literal["unigram", "bpe", "wordpiece", "byte-level-bpe"]
# SentencePiece's tables of characters: as they are, or by Unicode's NFKC; nmt also maps control characters and white
# space to spaces, cf folds case.
NormalizationName = Literal["identity", "nfkc", "nfkc_cf", "nmt_nfkc", "nmt_nfkc_cf"]
# How the upstream vocabulary changes: another replaces it, subwords are added, or removed.
VocabularyMode = Literal["replace", "extend", "trim"]
# Vocabularies of characters, with optional byte fallback and sampled segmentations.
SENTENCEPIECE_KINDS: tuple[VocabularyKind, ...] = ("unigram", "bpe")
MetricName = Literal["BLEU", "chrF", "TER", "ROUGE-L", "METEOR"]
# Metrics that are only measured on request, or for some tasks.
FurtherMetricName = Literal["ROUGE-1", "ROUGE-2", "CIDEr"]
# The engines that generate texts, and those that translate.
DecodingEngine = Literal["transformers", "ctranslate2", "llamacpp"]
TranslationEngine = Literal["transformers", "ctranslate2"]
EngineSetting = Literal["auto", "transformers", "ctranslate2"]
StaticAlgorithm = Literal["skip-gram", "cbow", "fasttext"]
# The inputs of a classifying head: whole texts, their tokens, spans of a passage, or several texts to choose from.
NoiseName = Literal["masking", "deletion", "infilling", "permutation", "rotation"]
HeadKind = Literal["sequence", "tokens", "span", "choice"]
# All random generators accept seeds of 31 bits.
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
# The share of a text's lines that a new vocabulary may change and the old one gives back, unless the user allows more.
MAX_LOST_LINES = 0.01
Count = Annotated[int, Field(ge=1, le=MAX_COUNT)]
# Of an optional setting that recipes leave out while it is None.
UNSET = Field(exclude_if=lambda value: value is None)
# How many states of earlier text a layer reads.
MemoryTokens = Annotated[int, Field(ge=0, le=MAX_SEQUENCE_LENGTH)]


class Settings(BaseModel):
    """Base of every group of settings: frozen; unknown fields, infinity and NaN are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class EngineFacts(NamedTuple):
    """An engine's name in messages, the module that it needs, and the extra that installs it."""

    title: str
    module: str
    extra: str


# transformers is always there.
OPTIONAL_ENGINES: Mapping[DecodingEngine, EngineFacts] = {
    "ctranslate2": EngineFacts("CTranslate2", "ctranslate2", "ctranslate2"),
    "llamacpp": EngineFacts("llama.cpp", "xllamacpp", "llamacpp"),
}


def named_engine(engine: EngineSetting) -> TranslationEngine:
    """The engine that a setting stands for here: `auto` is CTranslate2 if installed."""
    if engine != "auto":
        return engine
    return "transformers" if find_spec("ctranslate2") is None else "ctranslate2"


def groups_in(annotation: Any) -> list[type[BaseModel]]:
    """The groups of settings that an annotation can hold, through unions and containers."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return list(dict.fromkeys(group for inner in get_args(annotation) for group in groups_in(inner)))
