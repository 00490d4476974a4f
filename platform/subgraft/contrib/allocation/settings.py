"""Settings of `subgraft vocab allocate`: texts of many languages, and how one vocabulary is allocated to them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_VOCABULARY_SIZE
from subgraft.config.corpora import Cleaning
from subgraft.config.runtime import Runtime
from subgraft.config.settings_base import Count, Settings
from subgraft.data.sources.registry import CorpusSource

Size = Annotated[int, Field(ge=50, le=MAX_VOCABULARY_SIZE)]
Exponent = Annotated[float, Field(ge=0, le=1)]


class CurveSettings(Settings):
    """The vocabulary sizes at which ALP is measured, and how vocabularies of these sizes are made.

    kind: the algorithm that learns the vocabularies.
    step: ordinary pieces between one size and the next.
    largest: the largest size, unless the text supports fewer.
    sizes: ascending sizes, in place of step and largest.
    exact: whether unigram is retrained at each size; if not, each size starts from the pieces of the next larger one.
    Curves of bpe are always exact.
    """

    kind: Literal["unigram", "bpe"] = "unigram"
    step: Size = 1000
    largest: Size = 10_000
    sizes: Annotated[tuple[Size, ...], Field(min_length=1)] | None = None
    exact: bool = False

    @property
    def grid(self) -> tuple[int, ...]:
        """The sizes."""
        return self.sizes or (*range(self.step, self.largest, self.step), self.largest)

    @model_validator(mode="after")
    def _rising(self) -> CurveSettings:
        if any(larger <= smaller for smaller, larger in pairwise(self.grid)):
            raise ValueError(f"sizes must increase, not {', '.join(map(str, self.grid))}")
        if self.largest < self.step:
            raise ValueError(f"largest {self.largest} is below one step of {self.step}")
        if self.kind == "bpe" and self.exact:
            raise ValueError("curves of bpe are always exact: leave out exact")
        return self


class AllocationBaselines(Settings):
    """Vocabularies that the allocated one is compared with.

    joint: whether to learn one of the same size on the text of all languages, sampled by their shares.
    joint_lines: the maximum number of lines to learn it on.
    vocabularies: other vocabularies by name: each a directory of a vocabulary or of a model.
    """

    joint: bool = True
    joint_lines: Count = 1_000_000
    vocabularies: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")], str] = Field(
        default_factory=dict
    )


class Allocation(Settings):
    """One vocabulary for many languages, with as many subwords for each as benefit all languages most (Zheng et al.
    2021).

    name: the name in the tracker.
    texts: the corpora to read, each of one or more languages; no language may occur twice.
    limits: the maximum number of training segments of a language, evenly spaced; documents stay complete.
    cleaning: the rules that training text must pass.
    totals: total vocabulary sizes, including special tokens; one allocation for each.
    curves: the sizes at which a language's vocabulary is evaluated.
    language_exponent: α of q = p^α / Σ p^α, the probability of sampling a language, where p is its share of the
    training segments.
    capacity_exponent: β of Σ q^β ALP, which is maximised.
    byte_fallback: whether characters that the texts lack are written in bytes, which take 256 pieces, or are unknown.
    mask: whether there is a mask token.
    language_codes: whether there is a code for each language, as in mBART.
    baselines: the vocabularies to compare with.
    runtime: where and how steps run.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    texts: Annotated[tuple[CorpusSource, ...], Field(min_length=1)]
    limits: dict[str, Count] = Field(default_factory=dict)
    cleaning: Cleaning = Cleaning()
    totals: Annotated[tuple[Size, ...], Field(min_length=1)]
    curves: CurveSettings = CurveSettings()
    language_exponent: Exponent = 0.7
    capacity_exponent: Exponent = 0.7
    byte_fallback: bool = True
    mask: bool = True
    language_codes: bool = True
    baselines: AllocationBaselines = AllocationBaselines()
    runtime: Runtime = Runtime()

    @property
    def sources(self) -> dict[str, CorpusSource]:
        """The text of each language, as a separate corpus."""
        by_language: dict[str, CorpusSource] = {}
        for source in self.texts:
            by_language |= _by_language(source)
        return {
            code: source.model_copy(update={"limit": {**source.limit, "train": self.limits[code]}})
            if code in self.limits
            else source
            for code, source in by_language.items()
        }

    @model_validator(mode="before")
    @classmethod
    def _no_symbols(cls, data: object) -> object:
        if isinstance(data, dict) and "user_defined_symbols" in data:
            raise ValueError("allocations have no user_defined_symbols: add them by `subgraft vocab extend --words`")
        return data

    @model_validator(mode="after")
    def _each_language_once(self) -> Allocation:
        codes = [code for source in self.texts for code in _by_language(source)]
        if duplicates := sorted({code for code in codes if codes.count(code) > 1}):
            raise ValueError(f"texts name the language '{duplicates[0]}' twice: give it once")
        if unknown := sorted(self.limits.keys() - set(codes)):
            raise ValueError(f"limits name the language '{unknown[0]}', which no text has")
        if len(set(self.totals)) != len(self.totals):
            raise ValueError("totals must be distinct")
        return self


def _by_language(source: CorpusSource) -> Mapping[str, CorpusSource]:
    """Split a corpus of many languages into one for each. Raises ValueError for a kind that does not name languages."""
    kind = source.kind
    by_language = kind.by_language(source)
    if not by_language:
        raise ValueError(f"{kind.name} names no languages: put it into texts: {{LANGUAGE: {{{kind.name}: …}}}}")
    return by_language
