"""The properties of each initialiser, for settings and plans; `embeddings.initialisers.registry` has the code.

To add one: its name and properties here, and the function that makes its embeddings there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, WithJsonSchema

from subgraft.config import plugins
from subgraft.config.plugins import require_offered
from subgraft.config.settings_base import StaticAlgorithm

GeneratorName = Literal["avg", "att", "patt", "network"]
TrainedGenerator = Literal["att", "patt", "network"]
LearningName = Literal["token-distillation", "attention-influence", "likelihood-matching", "vocadt"]


@dataclass(frozen=True)
class InitialiserInfo:
    """mixes: whether every new row is a mixture of upstream rows, so that it can stay tied to them.
    generator: the kind of generator that makes them; trained: the same if it is trained.
    static: the algorithm of the static embeddings that it needs; as_they_are: whether these are the rows, so that they
    must be as wide.
    learnt_by: the training on the task's text that learns its rows while the model is frozen.
    donor: whether they are mapped from a second model that has the new tokens.
    seeded: whether rows depend on a seed; drawn: whether they depend on nothing else but the size of rows.
    """

    mixes: bool = False
    generator: GeneratorName | None = None
    trained: TrainedGenerator | None = None
    static: StaticAlgorithm | None = None
    as_they_are: bool = False
    learnt_by: LearningName | None = None
    donor: bool = False
    seeded: bool = False
    drawn: bool = False


@dataclass(frozen=True)
class LearningFacts:
    """Facts about a training that learns rows.

    training: its settings.  decoder_alone: whether it trains only a decoder's rows.
    has_start: whether it starts from the rows of another initialiser.
    """

    training: Literal[
        "token_distillation_training", "attention_influence_training", "likelihood_matching_training", "vocadt_training"
    ]
    decoder_alone: bool = False
    has_start: bool = False


INITIALISERS: Mapping[str, InitialiserInfo] = {
    "random": InitialiserInfo(seeded=True, drawn=True),
    "random-matched": InitialiserInfo(seeded=True, drawn=True),
    "mean": InitialiserInfo(mixes=True),
    "avg": InitialiserInfo(mixes=True, generator="avg"),
    "att": InitialiserInfo(mixes=True, generator="att", trained="att"),
    "patt": InitialiserInfo(mixes=True, generator="patt", trained="patt"),
    "network": InitialiserInfo(generator="network", trained="network"),
    "reconstruction": InitialiserInfo(),
    "word2vec": InitialiserInfo(static="skip-gram", as_they_are=True),
    "word2vec-mapped": InitialiserInfo(static="skip-gram"),
    "cbow": InitialiserInfo(static="cbow", as_they_are=True),
    "focus": InitialiserInfo(static="fasttext"),
    "wechsel": InitialiserInfo(static="fasttext"),
    "omp": InitialiserInfo(static="fasttext"),
    "locally-linear": InitialiserInfo(static="cbow"),
    "donor": InitialiserInfo(donor=True),
    "token-distillation": InitialiserInfo(learnt_by="token-distillation"),
    "attention-influence": InitialiserInfo(learnt_by="attention-influence"),
    "likelihood-matching": InitialiserInfo(learnt_by="likelihood-matching"),
    "vocadt": InitialiserInfo(learnt_by="vocadt"),
}
LEARNINGS: Mapping[LearningName, LearningFacts] = {
    "token-distillation": LearningFacts("token_distillation_training"),
    "attention-influence": LearningFacts("attention_influence_training"),
    "likelihood-matching": LearningFacts("likelihood_matching_training", decoder_alone=True, has_start=True),
    "vocadt": LearningFacts("vocadt_training"),
}
_NO_NEW_ROWS = InitialiserInfo()


# Of another package's initialiser: its rows may depend on the seed.
_OFFERED = InitialiserInfo(seeded=True)


def _known(name: str) -> str:
    require_offered(plugins.INITIALISERS, name, INITIALISERS)
    return name


# Editors complete the names of the table; an installed package may offer others.
_SCHEMA = WithJsonSchema({"anyOf": [{"enum": list(INITIALISERS), "type": "string"}, {"type": "string"}]})
# A name of the table, or one that an installed package offers.
AnyInitialiser: TypeAlias = Annotated[str, AfterValidator(_known), _SCHEMA]


def initialiser_info(initialiser: str | None) -> InitialiserInfo:
    """The properties of an initialiser; for None, those of a system without new tokens."""
    return _NO_NEW_ROWS if initialiser is None else INITIALISERS.get(initialiser, _OFFERED)


def package_of(initialiser: str) -> str | None:
    """The package and version that offers an initialiser; None for a built-in one."""
    return plugins.packages(plugins.INITIALISERS, [initialiser]).get(initialiser)


def learning_of(initialiser: str | None) -> LearningFacts | None:
    """The training that learns an initialiser's embeddings, if there is one."""
    learnt_by = initialiser_info(initialiser).learnt_by
    return None if learnt_by is None else LEARNINGS[learnt_by]


def names_with(fact: str) -> list[str]:
    """The initialisers that have something of this field, in the order of the table."""
    return [name for name, facts in INITIALISERS.items() if getattr(facts, fact)]
