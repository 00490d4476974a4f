"""Settings of vocabularies, and of how they segment text."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_COUNT, MAX_VOCABULARY_SIZE, MIN_VOCABULARY_SIZE
from subgraft.config.settings_base import (
    MAX_LOST_LINES,
    SENTENCEPIECE_KINDS,
    UNSET,
    NormalizationName,
    Settings,
    Share,
    SideName,
    VocabularyKind,
    VocabularyMode,
)


class VocabularySettings(Settings):
    """A vocabulary to learn.

    kind: the algorithm.
    size: the number of all tokens, including special tokens and bytes.
    character_coverage: the fraction of the text's characters that get pieces of their own.
    byte_fallback: whether other characters are written in bytes, which take 256 of the pieces, or are unknown; on by
    default for unigram and bpe, not available for wordpiece, always on for byte-level-bpe.
    normalization: SentencePiece's table of characters: identity, nfkc, nmt_nfkc (which also maps control characters and
    white space to spaces), nfkc_cf and nmt_nfkc_cf (which fold case). By default as in the vocabulary of
    `upstream.checkpoint`; without one, nmt_nfkc for unigram and bpe, none for byte-level-bpe, BERT's for wordpiece.
    keep_whitespace: whether runs of spaces, and spaces at the ends of a line, count; for unigram and bpe. By default as
    in the vocabulary of `upstream.checkpoint`, or not.
    dummy_prefix: whether a line's first word is marked like words after a space; for unigram and bpe. By default as in
    the vocabulary of `upstream.checkpoint`, or yes.
    split_digits: whether every digit is a piece of its own. By default as in the vocabulary of `upstream.checkpoint`,
    or not.
    min_count: pieces that the text uses less often are replaced by others.
    language_exponent: α of p^α, by which the languages of a shared vocabulary are sampled: 1 in proportion to their
    text, 0 uniformly, 0.7 in mBART and VoCap; null reads the whole text once.
    max_lines: learn from a uniform sample of this many lines, the same on every run; null learns from all, which
    unigram and bpe hold in memory.
    user_defined_symbols: placeholders, tags, product names and the like; each is one token, counts in `size`, and is
    found in a text as it stands.
    """

    kind: VocabularyKind = "unigram"
    size: Annotated[int, Field(ge=MIN_VOCABULARY_SIZE, le=MAX_VOCABULARY_SIZE)] = 8000
    character_coverage: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    byte_fallback: bool = Field(default_factory=lambda fields: fields.get("kind") in SENTENCEPIECE_KINDS)
    # Left out of fingerprints where they are not set.
    normalization: Annotated[NormalizationName | None, UNSET] = None
    keep_whitespace: Annotated[bool | None, UNSET] = None
    dummy_prefix: Annotated[bool | None, UNSET] = None
    split_digits: Annotated[bool | None, UNSET] = None
    min_count: Annotated[int | None, Field(ge=1, le=MAX_COUNT)] = None
    language_exponent: Annotated[float | None, Field(ge=0, le=1)] = None

    max_lines: Annotated[int | None, Field(ge=1, le=MAX_COUNT)] = None
    user_defined_symbols: tuple[Annotated[str, Field(pattern=r"^\S(.*\S)?$")], ...] = ()

    @model_validator(mode="after")
    def _kind_has_settings(self) -> VocabularySettings:
        if self.byte_fallback and self.kind not in SENTENCEPIECE_KINDS:
            raise ValueError(f"byte_fallback applies to the kinds unigram and bpe, not to {self.kind}")
        if self.character_coverage < 1 and self.kind == "byte-level-bpe":
            raise ValueError("byte-level-bpe spells every character in bytes: leave out character_coverage")
        if self.kind not in SENTENCEPIECE_KINDS and (self.keep_whitespace, self.dummy_prefix) != (None, None):
            raise ValueError(f"keep_whitespace and dummy_prefix apply to the kinds unigram and bpe, not to {self.kind}")
        return self


class TaskVocabularySettings(VocabularySettings):
    """The vocabulary for a task's text.

    mode: how the upstream vocabulary changes. replace learns a new one. extend adds `size` subwords that the task's
    training text has at least `min_count` times (2 by default). trim removes subwords that the text uses less than
    `min_count` times (1 by default), and ignores `size`. `user_defined_symbols` apply to replace and extend, all other
    settings but `size` and `min_count` to replace only.
    max_lost_lines: the share of the text's lines that the new vocabulary may change and the one of
    `upstream.checkpoint` gives back, in a sample; a run stops above it, and warns of fewer.
    """

    mode: VocabularyMode = "replace"
    max_lost_lines: Share = MAX_LOST_LINES


class JointVocabularySettings(VocabularySettings):
    """The vocabulary of upstream and downstream text together, for systems with `pretraining: joint-vocabulary`.

    weighing: as-they-are weights each text by its size; equal repeats the smaller one until it has about as many
    characters as the larger.
    """

    weighing: Literal["as-they-are", "equal"] = "as-they-are"


class SamplingSettings(Settings):
    """How segmentations are sampled each time a sentence is read, for systems with `pretraining: sampled`.

    dropout: the probability of skipping a merge, for bpe (Provilkov et al. 2020, section 3).
    alpha: the exponent on the probability of a segmentation, for unigram (Kudo 2018, section 3.3).
    sides: the sides whose text is sampled.
    """

    dropout: Share = 0.1
    alpha: Annotated[float, Field(gt=0)] = 0.2
    sides: Annotated[tuple[SideName, ...], Field(min_length=1)] = ("encoder", "decoder")
