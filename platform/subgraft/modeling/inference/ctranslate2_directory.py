"""A model for CTranslate2 in a directory: its own files, the tokenizers of the sides, and what both are used by.

`model.bin`, `config.json` and the vocabularies are CTranslate2's own; the tokenizers lie as they do in any model
directory of this package; `subgraft.json` has what is needed to put texts in and take texts out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import Settings, SideName
from subgraft.modeling.bundle import ROOM
from subgraft.modeling.families import Family, SequenceFormat, family_of
from subgraft.modeling.tokenizers import tokenizers_at
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

SETTINGS = "subgraft.json"


class ExportSettings(Settings):
    """What subgraft.json says.

    model: config.json of the model that was exported.  languages: those it was exported for, where it was said.
    search: what its generation settings ask of every search, in CTranslate2's words.  suppressed: sequences of pieces
    that are never written.  start: the piece that decoding starts with; none where that depends on the language.
    further_ends: ids of the tokens that end an output beside the tokenizer's own end.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())

    engine: Literal["ctranslate2"] = "ctranslate2"
    model: dict[str, Any]
    languages: Languages | None = None
    quantization: str = "float32"
    search: dict[str, float] = Field(default_factory=dict)
    suppressed: list[list[str]] = Field(default_factory=list)
    start: str | None = None
    further_ends: list[int] = Field(default_factory=list)


def is_exported(directory: Path) -> bool:
    """Whether `export_ctranslate2` wrote it, or somebody who does as it does."""
    return (directory / SETTINGS).is_file() and (directory / "model.bin").is_file()


@dataclass(frozen=True)
class ExportedModel:
    """An exported model that nothing is loaded of but its tokenizers; one object where the sides share it."""

    directory: Path
    settings: ExportSettings
    encoder: Tokenizer
    decoder: Tokenizer

    @classmethod
    def open(cls, directory: Path) -> ExportedModel:
        """Raises UserError where the directory is none, or its files do not fit together."""
        try:
            settings = ExportSettings.model_validate_json((directory / SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValidationError, ValueError) as error:
            hint = "Make it again: `subgraft export MODEL --to ctranslate2 --out DIR`."
            raise UserError(f"no exported model: {error}", where=str(directory / SETTINGS), hint=hint) from error
        tokenizers = tokenizers_at(directory, family_of(settings.model))
        return cls(directory, settings, tokenizers.get("encoder", tokenizers["decoder"]), tokenizers["decoder"])

    @property
    def family(self) -> Family:
        return family_of(self.settings.model)

    @property
    def sides(self) -> tuple[SideName, ...]:
        return self.family.sides

    @property
    def max_positions(self) -> int:
        """The longest sequence that is given to the model, in tokens."""
        return self.family.position_limit(self.settings.model) or ROOM

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end an output, the tokenizer's own end first."""
        return (self.decoder.special["eos"], *self.settings.further_ends)

    def has_ended(self, tokens: Sequence[int]) -> bool:
        """Whether an output has come to one of them."""
        return any(token in tokens for token in self.ends)

    def sequence_format(self, languages: Languages | None = None) -> SequenceFormat:
        """The form of its sequences, in the languages that it was exported for unless others are given."""
        chosen = languages or self.settings.languages
        return self.family.sequence_format(self.settings.model, self.encoder, self.decoder, chosen)

    def vocabularies(self) -> Mapping[SideName, tuple[str, ...]]:
        """What CTranslate2 calls the tokens of each side, by id."""
        sizes = self.family.vocabulary_sizes(self.settings.model)
        tokenizers: dict[SideName, Tokenizer] = {"encoder": self.encoder, "decoder": self.decoder}
        return {side: names(tokenizers[side], sizes[side]) for side in self.sides}


def names(tokenizer: Tokenizer, rows: int) -> tuple[str, ...]:
    """A name for each row of a table: its piece, or another one where it has none or an earlier row's.

    CTranslate2 tells tokens apart by their names alone. Raises UserError for a vocabulary larger than the table.
    """
    if len(tokenizer) > rows:
        raise UserError(f"a vocabulary of {len(tokenizer):,} tokens for a table of {rows:,} rows")
    found: dict[str, None] = {}
    for token in range(rows):
        piece = tokenizer.pieces[token] if token < len(tokenizer) else ""
        found[piece if piece and piece not in found else f"<spare {token}>"] = None
    return tuple(found)
