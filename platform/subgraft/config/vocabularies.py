"""Settings of vocabularies, and of how they cut text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import LARGEST_COUNT, LARGEST_VOCABULARY
from subgraft.config.settings_base import SENTENCEPIECE_KINDS, Settings, Share, SideName, VocabularyKind, VocabularyMode


class VocabularySettings(Settings):
    """A vocabulary to learn.

    kind: the algorithm that learns and cuts.
    size: of everything, special tokens and bytes included.
    character_coverage: the share of the text's characters that get pieces of their own.
    byte_fallback: whether other characters are spelled in bytes, which take 256 of the pieces, or are unknown; on for
    unigram and bpe by default, not available for wordpiece; byte-level-bpe spells everything in bytes anyway.
    min_count: pieces that the text uses fewer times than this are replaced by others; null replaces none.
    language_exponent: α of p^α, by which the languages of a vocabulary that several share are drawn: 1 as they are, 0
    all alike, 0.7 in mBART and VoCap; null takes the whole text once.
    max_lines: learn from a sample of so many lines, each as likely as any other, and the same on every run; null learns
    from all of them, which unigram and bpe hold in memory. Of text that is repeated, the repetition is sampled.
    """

    kind: VocabularyKind = "unigram"
    size: Annotated[int, Field(ge=50, le=LARGEST_VOCABULARY)] = 8000
    character_coverage: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    byte_fallback: bool = Field(default_factory=lambda given: given.get("kind") in SENTENCEPIECE_KINDS)
    min_count: Annotated[int | None, Field(ge=1, le=LARGEST_COUNT, exclude_if=lambda given: given is None)] = None
    language_exponent: Annotated[float | None, Field(ge=0, le=1, exclude_if=lambda given: given is None)] = None

    max_lines: Annotated[int | None, Field(ge=1, le=LARGEST_COUNT, exclude_if=lambda given: given is None)] = None

    @model_validator(mode="after")
    def _kind_has_bytes(self) -> VocabularySettings:
        if self.byte_fallback and self.kind not in SENTENCEPIECE_KINDS:
            raise ValueError(f"byte_fallback goes with the kinds unigram and bpe, not with {self.kind}")
        if self.character_coverage < 1 and self.kind == "byte-level-bpe":
            raise ValueError("byte-level-bpe spells every character in bytes: leave out character_coverage")
        return self


class TaskVocabularySettings(VocabularySettings):
    """The vocabulary that a task's text asks for.

    mode: what becomes of the upstream vocabulary. With replace a vocabulary is learnt in its place. With extend it
    stays, under the same ids, and gets `size` further subwords, each of which the task's training text has `min_count`
    times or more (2 where not given). With trim it loses what that text uses fewer times (1 where not given: what it
    never uses), and no size applies. Both keep its kind and its spelling of other text, so `kind`,
    `character_coverage`, `byte_fallback`, `language_exponent` and `max_lines` are of replace alone.
    """

    mode: VocabularyMode = Field(default="replace", exclude_if=lambda given: given == "replace")


class JointVocabularySettings(VocabularySettings):
    """The vocabulary of upstream and downstream text together, for systems with `pretraining: joint-vocabulary`.

    weighing: whether each text counts by its size, or both the same: then the smaller one is repeated a whole number of
    times, until it has about as many characters as the larger.
    """

    weighing: Literal["as-they-are", "equal"] = "as-they-are"


class SamplingSettings(Settings):
    """How text is cut anew each time a sentence is seen, for systems with `pretraining: sampled`.

    dropout: chance that a merge is left out, for bpe (Provilkov et al. 2020, section 3).
    alpha: exponent on the probability of a segmentation, for unigram; towards zero all are equally likely (Kudo 2018,
    section 3.3).
    sides: whose text is sampled; the other side is cut plainly.
    """

    dropout: Share = 0.1
    alpha: Annotated[float, Field(gt=0)] = 0.2
    sides: Annotated[tuple[SideName, ...], Field(min_length=1)] = ("encoder", "decoder")
