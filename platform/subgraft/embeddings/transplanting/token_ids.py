"""Translates the token ids in a model's configuration to a new vocabulary, by role and language code."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.modeling.families import BEFORE_SOURCE
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The settings, and the role that each prefers if a token has several (GPT-2's is beginning, end and unknown at once).
_ROLE_OF_SETTING = {
    "pad_token_id": "pad",
    "bos_token_id": "bos",
    "eos_token_id": "eos",
    "decoder_start_token_id": "bos",
    "forced_bos_token_id": "bos",
    "forced_eos_token_id": "eos",
}
_LISTS = ("bad_words_ids", "suppress_tokens", "begin_suppress_tokens")


@dataclass(frozen=True)
class TokenIds:
    """New values for the model's configuration and its generation configuration.

    dropped: generation settings about ordinary tokens that the new vocabulary lacks.
    """

    model: dict[str, Any]
    generation: dict[str, Any]
    dropped: tuple[str, ...]

    @property
    def padding(self) -> int | None:
        """The padding id of the configuration, if it has one."""
        padding: int | None = self.model.get("pad_token_id")
        return padding

    def apply(self, model: PreTrainedModel) -> None:
        for settings, values in zip(_configurations(model), (self.model, self.generation), strict=True):
            for name, value in values.items():
                setattr(settings, name, value)


def _configurations(model: PreTrainedModel) -> tuple[Any, Any]:
    """The model's configuration, and its generation configuration if it generates text."""
    return model.config, getattr(model, "generation_config", None)


def translate_token_ids(model: PreTrainedModel, source: Tokenizer, target: Tokenizer) -> TokenIds:
    """The decoder's token ids in the target vocabulary; the model is not changed.

    Raises UserError with all missing tokens if the target lacks a token that the model uses.
    """
    translation = _Translation(source, target)
    values = [translation.settings(settings) for settings in _configurations(model)]
    written = [code for code in source.languages if not code.startswith(BEFORE_SOURCE)]
    _require_none_missing(translation.missing + _missing_languages(written, target), "decoder")
    return TokenIds(values[0], values[1], tuple(dict.fromkeys(translation.dropped)))


def check_encoder_roles(source: Tokenizer, target: Tokenizer) -> None:
    """Raises UserError if the target lacks a padding token, end token or language code of the encoder's input."""
    missing = [role for role in ("pad", "eos") if role in source.special and role not in target.special]
    _require_none_missing(missing + _missing_languages(source.languages, target), "encoder")


def _missing_languages(codes: Collection[str], target: Tokenizer) -> list[str]:
    needed = bool(codes) and not set(codes) & set(target.languages)
    return [f"language code ({', '.join(sorted(codes)[:3])}, …)"] if needed else []


def _require_none_missing(missing: list[str], side: SideName) -> None:
    if missing:
        raise UserError(
            f"the vocabulary lacks special tokens that the model's {side} uses: {', '.join(dict.fromkeys(missing))}",
            hint="Learn a vocabulary like the model's own, which adopts the model's special tokens.",
        )


class _Translation:
    """Translates ids and collects those without a counterpart."""

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        self._source = source
        self._target = target
        self._special = {target.pieces[i]: i for i in target.special_ids}
        self.missing: list[str] = []
        self.dropped: list[str] = []

    def settings(self, settings: Any) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name, role in _ROLE_OF_SETTING.items():
            value = getattr(settings, name, None)
            if isinstance(value, list):
                values[name] = self._end_tokens(name, value, role)
            elif value is not None and value < 0:  # early Llama checkpoints represent a missing token by -1
                values[name] = None
            elif value is not None:
                values[name] = self._required(value, role)
        for name in _LISTS:
            if getattr(settings, name, None) is not None:
                values[name] = self._token_list(name, getattr(settings, name)) or None
        return values

    def _end_tokens(self, name: str, tokens: list[int], role: str) -> list[int | None]:
        """The ids of a list, for example of several end tokens; at least one must exist."""
        new_ids = {token: self._translate(token, role) for token in tokens}
        existing: list[int | None] = list(dict.fromkeys(known for known in new_ids.values() if known is not None))
        self.dropped += [f"{name}: {token}" for token, known in new_ids.items() if known is None and existing]
        return existing or [self._required(tokens[0], role)]

    def _required(self, token: int, role: str) -> int | None:
        new_id = self._translate(token, role)
        if new_id is None:
            roles = [name for name, known in self._source.special.items() if known == token]
            codes = [code for code, known in self._source.languages.items() if known == token]
            self.missing.append(" or ".join(roles or codes) or f"{role} (id {token} of the model's vocabulary)")
        return new_id

    def _token_list(self, name: str, tokens: list[Any]) -> list[Any]:
        mapped: list[Any] = []
        for item in tokens:
            inner = item if isinstance(item, list) else [item]
            new_ids = [self._translate(token, "") for token in inner]
            if None in new_ids:
                self.dropped.append(f"{name}: {item}")
            else:
                mapped.append(new_ids if isinstance(item, list) else new_ids[0])
        return mapped

    def _translate(self, token: int, preferred: str) -> int | None:
        """The target's id for a source id: by role (the preferred one first), by language code, or by spelling."""
        source, target = self._source, self._target
        roles = [role for role, known in source.special.items() if known == token]
        for role in sorted(roles, key=lambda role: role != preferred):
            if role in target.special:
                return target.special[role]
        for code, known in source.languages.items():
            if known == token and code in target.languages:
                return target.languages[code]
        if not roles and token in source.special_ids and source.pieces[token] in self._special:
            return self._special[source.pieces[token]]
        entry = source.entries[token] if 0 <= token < len(source) else None
        return None if entry is None else target.ids.get(entry)
