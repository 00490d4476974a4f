"""What functions are given: where a model is, and languages."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from subgraft.config.corpora import Languages
from subgraft.errors import UserError
from subgraft.tracking.given import local_model, require_sound

# Of source and target, as in ("en", "de").
LanguagePair: TypeAlias = Languages | tuple[str, str]


def located(model: Path | str) -> Path | str:
    """The directory or hub id; of `models:/NAME@ALIAS` the directory, verified. Raises UserError for a damaged one."""
    return require_sound(model) if isinstance(model, Path) else local_model(model)


def pair_of(languages: LanguagePair) -> Languages:
    """Raises UserError for anything but two codes."""
    if isinstance(languages, Languages):
        return languages
    if isinstance(languages, str) or len(languages) != 2 or not all(isinstance(code, str) for code in languages):
        hint = 'Give those of source and target, as in ("en", "de").'
        raise UserError(f"expected two language codes, found {languages!r}", where="languages", hint=hint)
    return Languages(source=languages[0], target=languages[1])
