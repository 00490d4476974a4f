"""What `subgraft vocab allocate` reads: texts of many languages, and how one vocabulary is shared out among them."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import LARGEST_VOCABULARY
from subgraft.config.corpora import Cleaning, CorpusSource
from subgraft.config.runtime import Runtime
from subgraft.config.settings_base import Count, Settings

Size = Annotated[int, Field(ge=50, le=LARGEST_VOCABULARY)]
Exponent = Annotated[float, Field(ge=0, le=1)]


class CurveSettings(Settings):
    """At which sizes ALP is measured, and how vocabularies of these sizes are found.

    kind: what vocabularies are learnt by.
    step: ordinary pieces between one size and the next.
    largest: where curves end, if not before, at the largest vocabulary that a text can give.
    sizes: in place of step and largest, the sizes themselves, rising.
    exact: whether unigram is trained anew at each size, in place of one descent in which each size begins with the
    pieces of the next larger one; curves of bpe are always exact.
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
            raise ValueError(f"sizes must rise, not {', '.join(map(str, self.grid))}")
        if self.largest < self.step:
            raise ValueError(f"largest {self.largest} is below one step of {self.step}")
        if self.kind == "bpe" and self.exact:
            raise ValueError("curves of bpe are exact whichever way: leave out exact")
        return self


class AllocationBaselines(Settings):
    """What the allocated vocabulary is compared with.

    joint: whether a vocabulary of the same size is learnt on the text of all languages together, drawn by their shares.
    joint_lines: the most lines that it is learnt on.
    given: other vocabularies by a name for each: a directory of one, or of a model.
    """

    joint: bool = True
    joint_lines: Count = 1_000_000
    given: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")], str] = Field(default_factory=dict)


class Allocation(Settings):
    """One vocabulary for many languages: as many subwords to each as are worth most to all (Zheng et al. 2021).

    name: in the tracker.
    texts: where the text comes from: corpora, each of as many languages as it names; no language may come twice.
    limits: the most training segments of a language, evenly spaced; of documents, whole ones.
    cleaning: which training text is kept.
    totals: sizes of the whole vocabulary, everything counted: an allocation for each.
    curves: at which sizes a language's vocabulary is judged.
    language_exponent: α of q = p^α / Σ p^α, how often a language is drawn; p is its share of the training segments.
    capacity_exponent: β of Σ q^β ALP, which is maximised.
    byte_fallback: whether characters that no text has are spelled in bytes, which take 256 places, or are unknown.
    mask: whether there is a mask token.
    language_codes: whether there is a code for each language, as mBART has them.
    baselines: what else is measured on the same text.
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
        """The text of each language, as a corpus of its own."""
        found: dict[str, CorpusSource] = {}
        for source in self.texts:
            found |= _by_language(source)
        return {
            code: source.model_copy(update={"limit": {**source.limit, "train": self.limits[code]}})
            if code in self.limits
            else source
            for code, source in found.items()
        }

    @model_validator(mode="after")
    def _each_language_once(self) -> Allocation:
        named = [code for source in self.texts for code in _by_language(source)]
        if twice := sorted({code for code in named if named.count(code) > 1}):
            raise ValueError(f"texts name the language '{twice[0]}' twice: give each its text in one place")
        if unknown := sorted(self.limits.keys() - set(named)):
            raise ValueError(f"limits name the language '{unknown[0]}', which no text is in")
        if len(set(self.totals)) != len(self.totals):
            raise ValueError("totals must be distinct")
        return self


def _by_language(source: CorpusSource) -> dict[str, CorpusSource]:
    """A corpus of many languages as one for each. Raises ValueError for a kind that names no languages."""
    if source.texts:
        return dict(source.texts)
    if source.verses:
        files = source.verses
        return {
            code: source.model_copy(update={"verses": files.model_copy(update={"translations": {code: name}})})
            for code, name in files.translations.items()
        }
    if source.plain:
        lists = source.plain
        return {
            code: source.model_copy(update={"plain": lists.model_copy(update={"languages": {code: name}})})
            for code, name in lists.names.items()
        }
    if source.languages:
        return {code: source.model_copy(update={"languages": (code,)}) for code in source.languages}
    raise ValueError(f"{source.kind} names no languages: put it into texts: {{LANGUAGE: {{{source.kind}: …}}}}")
