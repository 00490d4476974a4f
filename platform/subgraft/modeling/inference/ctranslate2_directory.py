"""The directory of a model that was exported to CTranslate2.

`model.bin`, `config.json` and the vocabularies are CTranslate2's; the tokenizers have the layout of any model
directory; `subgraft.json` has the settings that are needed to encode and decode texts.
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
from subgraft.modeling.bundle import DEFAULT_MAX_LENGTH
from subgraft.modeling.families import Family, Head, SequenceFormat, family_of, head_in
from subgraft.modeling.tokenizers import languages_of, require_rows, tokenizers_at
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

SETTINGS = "subgraft.json"


class ExportSettings(Settings):
    """The contents of subgraft.json.

    Attributes:
        engine: Always `ctranslate2`.
        model: config.json of the exported model.
        languages: The languages that it was exported for, if configured.
        quantization: The type of the exported weights.
        search: Search options from the model's generation settings, under CTranslate2's names.
        suppressed: Sequences of pieces that are never generated.
        start: The piece that decoding starts with; None if it depends on the language.
        further_ends: Ids that end an output in addition to the tokenizer's end token.
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
    """Whether a directory has the files that `export_ctranslate2` writes."""
    return (directory / SETTINGS).is_file() and (directory / "model.bin").is_file()


@dataclass(frozen=True)
class ExportedModel:
    """An exported model of which only the tokenizers are loaded; the same object if the sides share one."""

    directory: Path
    settings: ExportSettings
    encoder: Tokenizer
    decoder: Tokenizer

    @classmethod
    def open(cls, directory: Path) -> ExportedModel:
        """The exported model in a directory. Raises UserError if there is none, or its files do not match."""
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
    def head(self) -> Head | None:
        """The head of a model that predicts labels."""
        return head_in(self.settings.model)

    @property
    def sides(self) -> tuple[SideName, ...]:
        return self.family.sides

    @property
    def max_positions(self) -> int:
        """The maximum length of the model's input, in tokens."""
        return self.family.position_limit(self.settings.model) or DEFAULT_MAX_LENGTH

    @property
    def ends(self) -> tuple[int, ...]:
        """The ids that end an output, the tokenizer's end token first."""
        return (self.decoder.special["eos"], *self.settings.further_ends)

    def has_ended(self, tokens: Sequence[int]) -> bool:
        """Whether an output contains an end token."""
        return any(token in tokens for token in self.ends)

    def languages_for(self, requested: Languages | None) -> Languages | None:
        """The requested languages, or else its own. Raises ArgumentError for those that it cannot be used for."""
        known = () if self.settings.languages is None else (self.settings.languages,)
        return languages_of(known, (self.encoder, self.decoder), requested)

    def sequence_format(self, languages: Languages | None = None) -> SequenceFormat:
        """The special tokens of its sequences, by default for the languages that it was exported for."""
        pair = languages or self.settings.languages
        return self.family.sequence_format(self.settings.model, self.encoder, self.decoder, pair)

    def vocabularies(self) -> Mapping[SideName, tuple[str, ...]]:
        """CTranslate2's names of each side's tokens, by id."""
        sizes = self.family.vocabulary_sizes(self.settings.model)
        tokenizers: dict[SideName, Tokenizer] = {"encoder": self.encoder, "decoder": self.decoder}
        require_rows(tokenizers, sizes)
        return {side: token_names(tokenizers[side], sizes[side]) for side in self.sides}


def token_names(tokenizer: Tokenizer, rows: int) -> tuple[str, ...]:
    """A unique name for each row of the embeddings: its piece, or a placeholder for missing and duplicate pieces.

    CTranslate2 distinguishes tokens by name only.
    """
    unique: dict[str, None] = {}
    for token in range(rows):
        piece = tokenizer.pieces[token] if token < len(tokenizer) else ""
        unique[piece if piece and piece not in unique else f"<spare {token}>"] = None
    return tuple(unique)
