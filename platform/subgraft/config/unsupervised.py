"""Settings of translation that is learnt from text of two languages alone."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from subgraft.base.limits import LARGEST_BEAM
from subgraft.config.settings_base import Count, DecodingEngine, EngineSetting, Settings, named_engine
from subgraft.config.training import FinetuneSettings

# What a round sets itself, in the finetuning of systems with `unsupervised`.
_BY_STEP = ("batch_size_schedule", "dropout_schedule")


class UnsupervisedSettings(Settings):
    """On-the-fly back-translation without any pairs (Liu et al. 2020, section 5.1; Lample et al. 2018).

    One model translates in both directions. In each round it translates lines of downstream.text into the other
    language, and is then trained on the translations as sources of these lines, half of each batch in each direction.

    rounds: the number of rounds.
    updates: of each round. `finetune` has the other settings of this training, except those of its length and dev
    scores: a round is scored at its end, and its last weights are used.
    sentences: lines of each language that a round translates; later rounds translate others, until all had their turn.
    constrained_rounds: the first rounds, in which only tokens are generated that the text of the language contains.
    min_count: occurrences in that text from which on a token may be generated there.
    beam: beam size; 1 is greedy search.
    engine: the search engine, as in `evaluation`; transformers translates in constrained rounds.
    batch_size: the number of sentences translated at a time.
    max_length_ratio: the most bytes of a translation for each byte of the text.
    """

    rounds: Annotated[int, Field(ge=1, le=1000)] = 20
    updates: Count = 500
    sentences: Count = 10_000
    constrained_rounds: Annotated[int, Field(ge=0, le=1000)] = 2
    min_count: Count = 1
    beam: Annotated[int, Field(ge=1, le=LARGEST_BEAM)] = 1
    engine: EngineSetting = "auto"
    batch_size: Count = 64
    max_length_ratio: Annotated[float, Field(gt=0)] = 2.0

    @model_validator(mode="after")
    def _consistent(self) -> UnsupervisedSettings:
        if self.constrained_rounds > self.rounds:
            raise ValueError(f"constrained_rounds {self.constrained_rounds} is more than the {self.rounds} rounds")
        return self

    def engine_of(self, number: int) -> DecodingEngine:
        """The engine that translates in a round, numbered from 1."""
        return "transformers" if self.is_constrained(number) else named_engine(self.engine)

    def is_constrained(self, number: int) -> bool:
        """Whether only tokens of the language are generated in a round, numbered from 1."""
        return number <= self.constrained_rounds

    def training(self, finetune: FinetuneSettings) -> FinetuneSettings:
        """The training of a round, by the finetuning of its system. Raises ValueError for settings that do not fit."""
        if named := [name for name in _BY_STEP if getattr(finetune, name)]:
            raise ValueError(
                f"finetune.{named[0]} is by steps, and a round has {self.updates} of its own: leave it out"
            )
        if finetune.warmup_steps > self.updates:
            raise ValueError(
                f"finetune.warmup_steps {finetune.warmup_steps} is more than the {self.updates} updates of a round "
                "(unsupervised.updates): each round warms up"
            )
        length = {"epochs": None, "max_steps": self.updates, "stop_after": None, "evaluate_at": (self.updates,)}
        chosen = {"select": "last", "patience": None, "max_train_examples": None}
        return finetune.model_copy(update={**length, **chosen})
