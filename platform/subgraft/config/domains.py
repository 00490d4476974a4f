"""Settings of the two domains: what a model is pretrained on, and how, and what it is fitted to."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from subgraft.config.base import Seed, Settings, Share, UpstreamObjective
from subgraft.config.corpora import Languages
from subgraft.config.vocabularies import SamplingSettings, VocabularySettings


class NoiseSettings(Settings):
    """mBART's noise (Liu et al., TACL 2020, section 2.2): text infilling and sentence permutation.

    block_tokens: noise is drawn over blocks of consecutive sentences of at most so many tokens, separators and language
    included (512 in the paper); as many as the training's max_length where this is not given.
    """

    mask_share: Share = 0.35
    poisson_lambda: Annotated[float, Field(ge=0.1, le=1000)] = 3.5
    permute_sentences: bool = True
    block_tokens: Annotated[int, Field(ge=4)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _counts_tokens(cls, given: object) -> object:
        if isinstance(given, dict) and "sentences_per_document" in given:
            raise ValueError(
                "noise is now drawn over blocks of sentences: instead of sentences_per_document write block_tokens, "
                "the most tokens of a block, or neither, which makes it the training's max_length"
            )
        return given


class MaskingSettings(Settings):
    """BERT's masking (Devlin et al. 2019, section 3.1, task 1).

    share: of a sentence's tokens, those that are to be predicted, at least one.  masked, random: of these, the shares
    that the mask token and a random token stand for; the rest is left as it is.  sentences_per_document: half of
    the lines are read so many at a time, for tasks whose inputs are longer than the upstream sentences.
    """

    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.15
    masked: Share = 0.8
    random: Share = 0.1
    sentences_per_document: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _shares_add_up(self) -> MaskingSettings:
        if self.masked + self.random > 1.0:
            raise ValueError(f"masked {self.masked} and random {self.random} are more than the whole")
        return self


def _as_published(given: MaskingSettings) -> bool:
    return given == MaskingSettings()


class UpstreamSettings(Settings):
    """The pretrained side: either learnt here from a corpus, or a checkpoint (a local directory or a hub id).

    corpus is needed in both cases: generators are trained on it.  continue_pretraining: whether the checkpoint is
    pretrained further on the corpus, as `pretrain` says, before anything else; it keeps its vocabularies.  languages:
    of that corpus, where they are not the task's; left out of what the report records where they are.  objective:
    denoising is mBART's, masked BERT's; both take the sentences of each language for themselves.
    """

    corpus: str
    languages: Languages | None = Field(default=None, exclude_if=lambda given: given is None)
    objective: UpstreamObjective = "translation"
    vocabulary: VocabularySettings = VocabularySettings()
    checkpoint: str | None = None
    continue_pretraining: bool = Field(default=False, exclude_if=lambda given: not given)
    noise: NoiseSettings = NoiseSettings()
    masking: MaskingSettings = Field(default=MaskingSettings(), exclude_if=_as_published)
    sampling: SamplingSettings = SamplingSettings()
    seed: Seed = 1


class DownstreamSettings(Settings):
    """The task side: its corpus and the vocabulary it gets.

    shared: whether both sides get one, learnt on the text of both, where otherwise each gets its own.
    """

    corpus: str
    vocabulary: VocabularySettings = VocabularySettings()
    shared: bool = Field(default=False, exclude_if=lambda given: not given)
