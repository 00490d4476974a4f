"""Settings of the two domains: upstream, of pretraining, and downstream, of the task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from subgraft.base.entries import imported
from subgraft.config.corpora import Languages
from subgraft.config.model_shapes import EntityInput
from subgraft.config.models import families_for
from subgraft.config.settings_base import Seed, Settings, TextSide
from subgraft.config.vocabularies import SamplingSettings, TaskVocabularySettings, VocabularySettings
from subgraft.training.objectives.registry import ObjectiveSettings
from subgraft.training.objectives.translation import TranslationSettings

if TYPE_CHECKING:
    EntitySettings: TypeAlias = EntityInput
else:
    EntitySettings = imported("subgraft.contrib.ernie_thu.settings:EntitySettings")


class UpstreamSettings(Settings):
    """The pretrained side: trained here on a corpus, or a checkpoint.

    corpus: a name in `corpora`; with a checkpoint, only trained generators, continued pretraining and
    evaluation.upstream_sentences need it.
    languages: the languages of that corpus, if they differ from the task's; `all` uses every text of the corpus.
    objectives: the objectives of pretraining, done here or for the checkpoint.
    language_exponent: α of p^α / Σ p^α, the probability of a language of monolingual text, where p is its share of the
    examples (blocks of denoising, lines of other objectives); an epoch has each example at least once. Each epoch draws
    its own blocks. null uses the text unchanged, or the exponent of the allocation if `vocabulary_path` is from
    `subgraft vocab allocate`.
    vocabulary: the vocabulary to learn if there is no checkpoint.
    vocabulary_path: the directory of an existing vocabulary for both sides, for example of `vocab allocate`.
    entities: the entities that a new model of the family knowledgeable reads.
    checkpoint: a local directory or a hub id to start from, in place of pretraining.
    revision: the commit, branch or tag of a checkpoint on the hub; by default its newest commit.
    new_languages: languages that the checkpoint has no code for, each with the initialiser of its code's embedding:
    `mean` of the embeddings of all other codes, `random-matched` (drawn from their normal distribution), or a language
    of the checkpoint, whose code's embedding is copied. The codes are appended to the vocabulary. An example is
    `new_languages: {ukr: mean}`.
    continue_pretraining: whether the checkpoint is first pretrained further on the corpus, by `pretrain`, with its own
    vocabularies.
    sampling: how text is segmented for systems with `pretraining: sampled`.
    seed: the seed of pretraining, generators and learnt embeddings, which all `seeds` share.
    """

    corpus: str | None = None
    languages: Languages | Literal["all"] | None = None
    objectives: Annotated[tuple[ObjectiveSettings, ...], Field(min_length=1)] = (TranslationSettings(),)
    language_exponent: Annotated[float | None, Field(ge=0, le=1)] = None
    vocabulary: VocabularySettings = VocabularySettings()
    vocabulary_path: str | None = None
    entities: EntitySettings | None = None
    checkpoint: str | None = None
    revision: str | None = None
    new_languages: Mapping[str, str] = {}
    continue_pretraining: bool = False
    sampling: SamplingSettings = SamplingSettings()
    seed: Seed = 1

    @model_validator(mode="after")
    def _for_one_model(self) -> UpstreamSettings:
        kinds = [objective.kind for objective in self.objectives]
        if self.revision is not None and self.checkpoint is None:
            raise ValueError("revision needs a checkpoint, which is missing")
        if self.new_languages and self.checkpoint is None:
            raise ValueError(
                "new_languages needs a checkpoint, which is missing: a model that is pretrained here has a code for "
                "each language of its corpora"
            )
        if len(set(kinds)) != len(kinds):
            raise ValueError(f"objectives must be of different kinds, not {', '.join(kinds)}")
        paired = [objective.kind for objective in self.objectives if objective.needs_pairs]
        monolingual = "languages: all" if self.languages == "all" else "language_exponent"
        if paired and (self.languages == "all" or self.language_exponent is not None):
            raise ValueError(f"{monolingual} is for monolingual text, and {paired[0]} needs pairs in two languages")
        if self.vocabulary_path is not None and self.checkpoint is not None:
            raise ValueError("a checkpoint has its own vocabulary: leave out vocabulary_path")
        if not families_for(*kinds):
            raise ValueError(f"no model can be trained on all of these objectives: {', '.join(kinds)}")
        return self

    @property
    def translates(self) -> bool:
        """Whether the model can translate before it is finetuned."""
        return any(objective.translates for objective in self.objectives)


class DownstreamText(Settings):
    """Monolingual text of the domain, in the languages of the task, in addition to its pairs.

    Each entry is a name in `corpora`, whose training text in that language is used, or a file of one segment a line,
    plain or gzipped, or a folder of such files (.txt, .gz). Relative paths are looked up next to the configuration
    file, then under SUBGRAFT_DATA.

    source: text in the language that is read.
    target: text in the language that is written.
    """

    source: tuple[str, ...] = ()
    target: tuple[str, ...] = ()

    @property
    def sides(self) -> tuple[TextSide, ...]:
        """The sides that have text."""
        known: tuple[TextSide, ...] = ("source", "target")
        return tuple(side for side in known if getattr(self, side))

    @model_validator(mode="after")
    def _something_once(self) -> DownstreamText:
        for side in sorted(self.model_fields_set) or ("source", "target"):
            names = getattr(self, side)
            if not names:
                raise ValueError(f"{side} names no text: give a name of corpora, a file or a folder, or leave it out")
            if duplicates := [name for index, name in enumerate(names) if name in names[:index]]:
                raise ValueError(f"{side} names '{duplicates[0]}' twice")
        return self


class DownstreamSettings(Settings):
    """The task side: its corpus, additional text, and new vocabulary.

    corpus: a name in `corpora`.
    vocabulary: the vocabulary of its training text.
    shared: whether both sides get one vocabulary, learnt on the text of both.
    text: monolingual text, also for vocabularies, static embeddings and learnt embeddings.
    """

    corpus: str
    vocabulary: TaskVocabularySettings = TaskVocabularySettings()
    shared: bool = False
    text: DownstreamText | None = None
