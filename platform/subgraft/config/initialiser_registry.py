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
StartName = Literal["mean", "avg", "att", "patt"]  # of training
LearningName = Literal["token-distillation", "attention-influence", "likelihood-matching", "vocadt"]


@dataclass(frozen=True)
class InitialiserInfo:
    """The properties of an initialiser.

    Attributes:
        mixes: Whether every new row is a mixture of upstream rows, so that it can stay tied to them.
        generator: The kind of generator that makes the rows.
        trained: The same, if the generator is trained.
        static: The algorithm of the static embeddings that it needs.
        unmapped: Whether the static embeddings are the rows themselves, so that their widths must be equal.
        learning: The training on the task's text that learns its rows while the model is frozen.
        donor: Whether rows are mapped from a second model that has the new tokens.
        seeded: Whether rows depend on a seed.
        random: Whether rows depend only on the seed and on the shape of the tables.
    """

    mixes: bool = False
    generator: GeneratorName | None = None
    trained: TrainedGenerator | None = None
    static: StaticAlgorithm | None = None
    unmapped: bool = False
    learning: LearningName | None = None
    donor: bool = False
    seeded: bool = False
    random: bool = False


@dataclass(frozen=True)
class LearningFacts:
    """The properties of a training that learns rows.

    Attributes:
        training: The name of its settings.
        decoder_alone: Whether it only trains a decoder's rows.
        has_start: Whether it starts from the rows of another initialiser.
    """

    training: Literal[
        "token_distillation_training", "attention_influence_training", "likelihood_matching_training", "vocadt_training"
    ]
    decoder_alone: bool = False
    has_start: bool = False


INITIALISERS: Mapping[str, InitialiserInfo] = {
    "random": InitialiserInfo(seeded=True, random=True),
    "random-matched": InitialiserInfo(seeded=True, random=True),
    "mean": InitialiserInfo(mixes=True),
    "avg": InitialiserInfo(mixes=True, generator="avg"),
    "att": InitialiserInfo(mixes=True, generator="att", trained="att"),
    "patt": InitialiserInfo(mixes=True, generator="patt", trained="patt"),
    "network": InitialiserInfo(generator="network", trained="network"),
    "reconstruction": InitialiserInfo(),
    "word2vec": InitialiserInfo(static="skip-gram", unmapped=True),
    "word2vec-mapped": InitialiserInfo(static="skip-gram"),
    "cbow": InitialiserInfo(static="cbow", unmapped=True),
    "focus": InitialiserInfo(static="fasttext"),
    "wechsel": InitialiserInfo(static="fasttext"),
    "omp": InitialiserInfo(static="fasttext"),
    "locally-linear": InitialiserInfo(static="cbow"),
    "donor": InitialiserInfo(donor=True),
    "token-distillation": InitialiserInfo(learning="token-distillation"),
    "attention-influence": InitialiserInfo(learning="attention-influence"),
    "likelihood-matching": InitialiserInfo(learning="likelihood-matching"),
    "vocadt": InitialiserInfo(learning="vocadt"),
}
LEARNINGS: Mapping[LearningName, LearningFacts] = {
    "token-distillation": LearningFacts("token_distillation_training"),
    "attention-influence": LearningFacts("attention_influence_training"),
    "likelihood-matching": LearningFacts("likelihood_matching_training", decoder_alone=True, has_start=True),
    "vocadt": LearningFacts("vocadt_training"),
}
_NO_NEW_ROWS = InitialiserInfo()


# The properties of another package's initialiser, whose rows may depend on the seed.
_PLUGIN_INFO = InitialiserInfo(seeded=True)


def _require_known(name: str) -> str:
    require_offered(plugins.INITIALISERS, name, INITIALISERS)
    return name


# Editors complete the names of the table; an installed package may offer others.
_SCHEMA = WithJsonSchema({"anyOf": [{"enum": list(INITIALISERS), "type": "string"}, {"type": "string"}]})
# A name of the table, or one that an installed package offers.
AnyInitialiser: TypeAlias = Annotated[str, AfterValidator(_require_known), _SCHEMA]


def initialiser_info(initialiser: str | None) -> InitialiserInfo:
    """The properties of an initialiser; for None, those of a system without new tokens."""
    return _NO_NEW_ROWS if initialiser is None else INITIALISERS.get(initialiser, _PLUGIN_INFO)


def package_of(initialiser: str) -> str | None:
    """The package and version that offers an initialiser; None for a built-in one."""
    return plugins.packages(plugins.INITIALISERS, [initialiser]).get(initialiser)


def learning_of(initialiser: str | None) -> LearningFacts | None:
    """The training that learns an initialiser's embeddings, if there is one."""
    learning = initialiser_info(initialiser).learning
    return None if learning is None else LEARNINGS[learning]


def names_with(fact: str) -> list[str]:
    """The names of the initialisers for which this property is set, in the order of the table."""
    return [name for name, facts in INITIALISERS.items() if getattr(facts, fact)]
