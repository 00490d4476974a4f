"""Settings of synthetic pairs, made from monolingual text before a finetuning, or in its rounds, in place of pairs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_BEAM_SIZE
from subgraft.config.settings_base import Count, EngineSetting, Settings, TranslationEngine, named_engine
from subgraft.config.training import FinetuneSettings

# How finetuning uses `downstream.text`, in addition to the task's own text.
TextUse = Literal["copied", "back-translated", "denoised", "lines"]
# The uses that read pairs, made of target text.
MADE_PAIRS: frozenset[TextUse] = frozenset({"copied", "back-translated"})

# Rounds of back-translation.
Rounds = Annotated[int, Field(ge=1, le=100)]
# The tag before back-translated sources, if configured.
TAG = "<BT>"


class CopiedTextSettings(Settings):
    """Target text with a copy of it as its source (Currey et al. 2017), for systems of `text: copied`.

    drop: the fraction of words that the copy leaves out.
    """

    drop: Annotated[float, Field(ge=0, lt=1)] = 0.3


class BackTranslationSettings(Settings):
    """Target text with its translation by a reverse model as its source (Sennrich et al. 2016).

    With several rounds, downstream.text.source is translated too, and trains the next reverse model (Hoang et al.
    2018). The models of all rounds start from the same model. In addition to the pairs, they read text that the models
    of the previous round translated.

    rounds: rounds of translation; systems read the text of the last one.
    model: a directory or a hub id of a model from target to source language. By default one is pretrained and finetuned
    here, on the reversed corpora.
    beam: beam size; 1 is greedy search.
    sample: whether tokens are sampled, in place of search (Edunov et al. 2018).
    engine: the search engine, as in `evaluation`; samples are drawn by transformers.
    batch_size: the number of sentences translated at a time.
    max_length_ratio: the maximum number of bytes of an output for each byte of the text.
    tag: whether `<BT>` precedes each such source (Caswell et al. 2019), as text that the encoder's vocabulary must
    spell.
    """

    rounds: Rounds = 1
    model: str | None = None
    beam: Annotated[int, Field(ge=1, le=MAX_BEAM_SIZE)] = 1
    sample: bool = False
    engine: EngineSetting = "auto"
    batch_size: Count = 64
    max_length_ratio: Annotated[float, Field(gt=0)] = 3.0
    tag: bool = False

    @model_validator(mode="after")
    def _searched_or_drawn(self) -> BackTranslationSettings:
        if self.sample and self.beam > 1:
            raise ValueError("sample: true samples tokens instead of searching: leave out beam")
        return self

    @property
    def named_engine(self) -> TranslationEngine:
        """The engine that translates here."""
        return "transformers" if self.sample else named_engine(self.engine)


# The settings of a system's finetuning that each round of `unsupervised` replaces.
_BY_STEP = ("batch_size_schedule", "dropout_schedule")


class UnsupervisedSettings(Settings):
    """On-the-fly back-translation without any pairs (Liu et al. 2020, section 5.1; Lample et al. 2018).

    One model translates in both directions. In each round it translates lines of downstream.text into the other
    language, and is then trained on the translations as sources of these lines, half of each batch in each direction.

    rounds: the number of rounds.
    updates: the updates of each round. The other settings of this training are those of `finetune`, except its length
    and dev scores: a round is scored at its end, and its last weights are used.
    sentences: lines of each language that a round translates; later rounds translate others, until all were translated.
    constrained_rounds: the number of first rounds that generate only tokens which occur in the text of the language.
    min_count: the minimum number of occurrences in that text of a token that constrained rounds may generate.
    beam: beam size; 1 is greedy search.
    engine: the search engine, as in `evaluation`; transformers translates in constrained rounds.
    batch_size: the number of sentences translated at a time.
    max_length_ratio: the maximum number of bytes of a translation for each byte of the text.
    """

    rounds: Annotated[int, Field(ge=1, le=1000)] = 20
    updates: Count = 500
    sentences: Count = 10_000
    constrained_rounds: Annotated[int, Field(ge=0, le=1000)] = 2
    min_count: Count = 1
    beam: Annotated[int, Field(ge=1, le=MAX_BEAM_SIZE)] = 1
    engine: EngineSetting = "auto"
    batch_size: Count = 64
    max_length_ratio: Annotated[float, Field(gt=0)] = 2.0

    @model_validator(mode="after")
    def _consistent(self) -> UnsupervisedSettings:
        if self.constrained_rounds > self.rounds:
            raise ValueError(f"constrained_rounds {self.constrained_rounds} is more than the {self.rounds} rounds")
        return self

    def engine_of(self, number: int) -> TranslationEngine:
        """The engine that translates in a round, numbered from 1."""
        return "transformers" if self.is_constrained(number) else named_engine(self.engine)

    def is_constrained(self, number: int) -> bool:
        """Whether only tokens of the language are generated in a round, numbered from 1."""
        return number <= self.constrained_rounds

    def training(self, finetune: FinetuneSettings) -> FinetuneSettings:
        """The training of a round, by the finetuning of its system. Raises ValueError for settings that do not fit."""
        if by_step := [name for name in _BY_STEP if getattr(finetune, name)]:
            raise ValueError(
                f"finetune.{by_step[0]} counts steps of a whole training, and a round has {self.updates}: leave it out"
            )
        if finetune.warmup_steps > self.updates:
            raise ValueError(
                f"finetune.warmup_steps {finetune.warmup_steps} is more than the {self.updates} updates of a round "
                "(unsupervised.updates): each round warms up"
            )
        length = {"epochs": None, "max_steps": self.updates, "stop_after": None, "evaluate_at": (self.updates,)}
        unselected = {"select": "last", "patience": None, "max_train_examples": None}
        return finetune.model_copy(update={**length, **unselected})
