"""Translates the token ids in a model's configuration to a new vocabulary, by role, language code and entry."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.modeling.families import BEFORE_SOURCE, family_of
from subgraft.modeling.generation_settings import with_new_ids
from subgraft.modeling.sides import side_config
from subgraft.subwords.vocabulary.alignment import NEW, align
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# Where settings are: the model's configuration, that of a side which has one, or the generation configuration.
Place = Literal["config", "encoder", "decoder", "generation_config"]
# Settings without which a model cannot be used: a new vocabulary must have their tokens.
_REQUIRED = (
    "pad_token_id",
    "bos_token_id",
    "eos_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
)


@dataclass(frozen=True)
class TokenIds:
    """New values for a model's settings.

    Attributes:
        values: New values of settings, by place.
        dropped: Settings about tokens that the new vocabulary lacks.
    """

    values: Mapping[Place, Mapping[str, Any]]
    dropped: tuple[str, ...] = ()

    @property
    def padding(self) -> int | None:
        """The padding id of the configuration, if it has one."""
        padding: int | None = self.values.get("config", {}).get("pad_token_id")
        return padding

    def apply(self, model: PreTrainedModel) -> None:
        for place, _, settings in _places(model):
            for name, value in self.values.get(place, {}).items():
                setattr(settings, name, value)


def translate_token_ids(
    model: PreTrainedModel, source: Mapping[SideName, Tokenizer], target: Mapping[SideName, Tokenizer]
) -> TokenIds:
    """The token ids of a model's settings in the new vocabularies of its sides; the model is not changed.

    Ids in the configuration of an encoder are in its vocabulary, all others in the decoder's. Raises UserError with all
    missing tokens if a new vocabulary lacks a token that the model uses.
    """
    values: dict[Place, Mapping[str, Any]] = {}
    dropped: list[str] = []
    missing: list[str] = []
    for place, side, settings in _places(model):
        if side in target:
            translation = _Translation(source[side], target[side])
            values[place], lost = with_new_ids(vars(settings), translation.new_id)
            for name, items in lost.items():
                if side == "decoder" and name in _REQUIRED and values[place][name] is None:
                    missing.append(translation.describe(items[0], name))
                else:
                    dropped += [f"{name}: {translation.spell(item)}" for item in items]
    if "decoder" in target:
        written = [code for code in source["decoder"].languages if not code.startswith(BEFORE_SOURCE)]
        _require_none_missing(missing + _missing_languages(written, target["decoder"]), "decoder")
    return TokenIds(values, tuple(dict.fromkeys(dropped)))


def _places(model: PreTrainedModel) -> Iterator[tuple[Place, SideName, Any]]:
    """All settings with token ids, and the side whose vocabulary they are in."""
    yield "config", "decoder", model.config
    for name in family_of(model).sides:
        if (config := side_config(model, name)) is not model.config:
            yield name, name, config
    if (generation := getattr(model, "generation_config", None)) is not None:
        yield "generation_config", "decoder", generation


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
    """New ids of a vocabulary's tokens."""

    def __init__(self, source: Tokenizer, target: Tokenizer) -> None:
        self._source = source
        self._target = target

    def new_id(self, token: int, preferred: str) -> int | None:
        """The target's id of a source id: by role, the preferred one first, or of the token that copies its row."""
        source, target = self._source, self._target
        roles = [role for role, known in source.special.items() if known == token]
        # GPT-2's end is its beginning and unknown token at once.
        for role in sorted(roles, key=lambda role: role != preferred):
            if role in target.special:
                return target.special[role]
        return None if roles else self._copies.get(token)

    @cached_property
    def _copies(self) -> Mapping[int, int]:
        """The first target id that copies each source id's row: by entry, code or spelling."""
        origins = align(self._source, self._target).origins.tolist()
        return {origin: token for token, origin in reversed(list(enumerate(origins))) if origin != NEW}

    def describe(self, token: int, setting: str) -> str:
        """A missing token by its role or language."""
        roles = [name for name, known in self._source.special.items() if known == token]
        codes = [code for code, known in self._source.languages.items() if known == token]
        role = setting.removesuffix("_token_id")
        return " or ".join(roles or codes) or f"{role} (id {token} of the model's vocabulary)"

    def spell(self, item: Any) -> str:
        """The pieces of a setting's item: of an id, of several, or of ids with a number."""
        if isinstance(item, int):
            known = 0 <= item < len(self._source)
            return (self._source.pieces[item] if known else "") or str(item)
        if isinstance(item, list | tuple):
            return " ".join(map(self.spell, item))
        return str(item)
