"""A donor: another model, whose embeddings of new tokens are mapped into the space of the first one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from subgraft.config.initialisers import DonorMapping
from subgraft.config.settings_base import SideName
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import FloatTables, side
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


@dataclass(frozen=True)
class DonorSide:
    """The vocabulary of one side of a donor, and its tables."""

    tokenizer: Tokenizer
    tables: FloatTables


@dataclass(frozen=True)
class Donor:
    """The donor's sides, and how their embeddings are mapped.

    name: how messages call it.
    """

    name: str
    sides: Mapping[SideName, DonorSide]
    mapping: DonorMapping

    @classmethod
    def of(cls, bundle: Bundle, mapping: DonorMapping, name: str) -> Donor:
        """The donor that is this model."""
        sides = {
            each: DonorSide(tokenizer, FloatTables.of(side(bundle.model, each)))
            for each, tokenizer in bundle.tokenizers.items()
        }
        return cls(name, sides, mapping)

    def side(self, name: SideName) -> DonorSide:
        """The donor's side for a side of the model: the one of the same name, or the only one."""
        return self.sides.get(name) or next(iter(self.sides.values()))


def load_donor(model: Path | str, mapping: DonorMapping) -> Donor:
    """The donor in a directory or on the hub; only its embeddings stay in memory.

    Raises UserError for a model that cannot be loaded.
    """
    return Donor.of(Bundle.load(model), mapping, str(model))
