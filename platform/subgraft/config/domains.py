"""Settings of the two domains: upstream, which a model is pretrained on, and downstream, which it is fitted to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.base import Seed, Settings
from subgraft.config.corpora import Languages
from subgraft.config.models import families_for
from subgraft.config.objectives import ObjectiveSettings, TranslationSettings
from subgraft.config.vocabularies import SamplingSettings, VocabularySettings


class UpstreamSettings(Settings):
    """The pretrained side: either trained here on a corpus, or a checkpoint.

    corpus: a name of `corpora`; with a checkpoint only what reads upstream text needs it: trained generators, further
    pretraining, evaluation.upstream_sentences.
    languages: the languages of that corpus, where they are not the task's; `all` takes every text that it names, in any
    number of languages.
    objectives: what the model is, or was, pretrained on; with several, each batch belongs to one of them.
    vocabulary: the vocabulary to learn where there is no checkpoint.
    checkpoint: a local directory or a hub id to begin with, in place of pretraining.
    continue_pretraining: whether the checkpoint is first pretrained further on the corpus, as `pretrain` says, with its
    own vocabularies.
    sampling: how text is cut for systems with `pretraining: sampled`.
    seed: of pretraining, of generators and of learnt rows, which all `seeds` share.
    """

    corpus: str | None = Field(default=None, exclude_if=lambda given: given is None)
    languages: Languages | Literal["all"] | None = Field(default=None, exclude_if=lambda given: given is None)
    objectives: Annotated[tuple[ObjectiveSettings, ...], Field(min_length=1)] = (TranslationSettings(),)
    vocabulary: VocabularySettings = VocabularySettings()
    checkpoint: str | None = None
    continue_pretraining: bool = Field(default=False, exclude_if=lambda given: not given)
    sampling: SamplingSettings = SamplingSettings()
    seed: Seed = 1

    @model_validator(mode="after")
    def _for_one_model(self) -> UpstreamSettings:
        kinds = [objective.kind for objective in self.objectives]
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"objectives must be of different kinds, not {', '.join(kinds)}")
        if self.languages == "all" and (paired := [each.kind for each in self.objectives if each.needs_pairs]):
            raise ValueError(f"languages: all is for text by itself, and {paired[0]} needs pairs in two languages")
        if not families_for(*kinds):
            raise ValueError(f"no model can be trained on all of these objectives: {', '.join(kinds)}")
        return self

    @property
    def translates(self) -> bool:
        """Whether the model can translate before it is finetuned."""
        return any(objective.translates for objective in self.objectives)


class DownstreamSettings(Settings):
    """The task side: its corpus and the vocabulary it gets.

    corpus: a name of `corpora`.
    vocabulary: the vocabulary to learn on its training text.
    shared: whether both sides get the same vocabulary, learnt on the text of both; if not, each side gets its own.
    """

    corpus: str
    vocabulary: VocabularySettings = VocabularySettings()
    shared: bool = Field(default=False, exclude_if=lambda given: not given)
