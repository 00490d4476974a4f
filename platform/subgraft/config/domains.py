"""Settings of the two domains: upstream, which a model is pretrained on, and downstream, which it is fitted to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.corpora import Languages
from subgraft.config.models import families_for
from subgraft.config.objectives import ObjectiveSettings, TranslationSettings
from subgraft.config.settings_base import Seed, Settings, TextSide
from subgraft.config.vocabularies import SamplingSettings, TaskVocabularySettings, VocabularySettings


class UpstreamSettings(Settings):
    """The pretrained side: either trained here on a corpus, or a checkpoint.

    corpus: a name of `corpora`; with a checkpoint only what reads upstream text needs it: trained generators, further
    pretraining, evaluation.upstream_sentences.
    languages: the languages of that corpus, where they are not the task's; `all` takes every text that it names, in any
    number of languages.
    objectives: what the model is, or was, pretrained on; with several, each batch belongs to one of them.
    language_exponent: α of p^α / Σ p^α, by which languages of text by itself are drawn, p being a language's share of
    the segments: small ones come several times in an epoch, and none less than once. null takes the text as it is, or,
    with a `given_vocabulary` of `subgraft vocab allocate`, as that was allocated.
    vocabulary: the vocabulary to learn where there is no checkpoint.
    given_vocabulary: the directory of a vocabulary to take in its place, for both sides; `vocab allocate` writes such.
    checkpoint: a local directory or a hub id to begin with, in place of pretraining.
    revision: the commit, branch or tag of a checkpoint on the hub; by default its newest commit, which is recorded.
    continue_pretraining: whether the checkpoint is first pretrained further on the corpus, as `pretrain` says, with its
    own vocabularies.
    sampling: how text is cut for systems with `pretraining: sampled`.
    seed: of pretraining, of generators and of learnt rows, which all `seeds` share.
    """

    corpus: str | None = Field(default=None, exclude_if=lambda given: given is None)
    languages: Languages | Literal["all"] | None = Field(default=None, exclude_if=lambda given: given is None)
    objectives: Annotated[tuple[ObjectiveSettings, ...], Field(min_length=1)] = (TranslationSettings(),)
    language_exponent: Annotated[float | None, Field(ge=0, le=1, exclude_if=lambda given: given is None)] = None
    vocabulary: VocabularySettings = VocabularySettings()
    given_vocabulary: str | None = Field(default=None, exclude_if=lambda given: given is None)
    checkpoint: str | None = None
    revision: str | None = Field(default=None, exclude_if=lambda given: given is None)
    continue_pretraining: bool = Field(default=False, exclude_if=lambda given: not given)
    sampling: SamplingSettings = SamplingSettings()
    seed: Seed = 1

    @model_validator(mode="after")
    def _for_one_model(self) -> UpstreamSettings:
        kinds = [objective.kind for objective in self.objectives]
        if self.revision is not None and self.checkpoint is None:
            raise ValueError("revision is that of a checkpoint, and none is given")
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"objectives must be of different kinds, not {', '.join(kinds)}")
        if self.languages == "all" and (paired := [each.kind for each in self.objectives if each.needs_pairs]):
            raise ValueError(f"languages: all is for text by itself, and {paired[0]} needs pairs in two languages")
        if self.language_exponent is not None and (
            paired := [each.kind for each in self.objectives if each.needs_pairs]
        ):
            raise ValueError(f"language_exponent is for text by itself, and {paired[0]} needs pairs in two languages")
        if self.given_vocabulary is not None and self.checkpoint is not None:
            raise ValueError("a checkpoint has its own vocabulary: leave out given_vocabulary")
        if not families_for(*kinds):
            raise ValueError(f"no model can be trained on all of these objectives: {', '.join(kinds)}")
        return self

    @property
    def translates(self) -> bool:
        """Whether the model can translate before it is finetuned."""
        return any(objective.translates for objective in self.objectives)


class DownstreamText(Settings):
    """Text of the domain that nobody has translated, in the languages of the task, beside its pairs.

    Each is a name of `corpora`, of which the training text in that language is taken, or else a file of one segment a
    line, plain or gzipped, or a folder of such files (.txt, .gz). Relative paths begin beside the configuration file,
    then under SUBGRAFT_DATA.

    source: text in the language that is read.
    target: text in the language that is written.
    """

    source: tuple[str, ...] = Field(default=(), exclude_if=lambda given: not given)
    target: tuple[str, ...] = Field(default=(), exclude_if=lambda given: not given)

    @property
    def sides(self) -> tuple[TextSide, ...]:
        """Those that there is text of."""
        known: tuple[TextSide, ...] = ("source", "target")
        return tuple(side for side in known if getattr(self, side))

    @model_validator(mode="after")
    def _something_once(self) -> DownstreamText:
        for side in sorted(self.model_fields_set) or ("source", "target"):
            named = getattr(self, side)
            if not named:
                raise ValueError(f"{side} names no text: give a name of corpora, a file or a folder, or leave it out")
            if twice := [name for at, name in enumerate(named) if name in named[:at]]:
                raise ValueError(f"{side} names '{twice[0]}' twice")
        return self


class DownstreamSettings(Settings):
    """The task side: its corpus, its further text, and the vocabulary it gets.

    corpus: a name of `corpora`.
    vocabulary: the vocabulary to learn on its training text, or what that text adds to or leaves of the upstream one.
    shared: whether both sides get the same vocabulary, learnt on the text of both; if not, each side gets its own.
    text: text of one language beside the corpus, which vocabularies, static embeddings and learnt rows are made of too.
    """

    corpus: str
    vocabulary: TaskVocabularySettings = TaskVocabularySettings()
    shared: bool = Field(default=False, exclude_if=lambda given: not given)
    text: DownstreamText | None = Field(default=None, exclude_if=lambda given: given is None)
