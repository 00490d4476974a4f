# mypy: allow-untyped-calls
"""Published generation settings: without those that transformers rejects, which are reported, and with new token ids.

transformers refuses to load some combinations. It only warns about others, but refuses to save them after any change,
such as new ids of special tokens.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.base.limits import MAX_SEQUENCE_LENGTH
from subgraft.base.security.limits import PIECES
from subgraft.base.security.terminal_escaping import say

if TYPE_CHECKING:
    from transformers import GenerationConfig

# Returns the error message for the settings without these names; empty if they are valid.
_FindError = Callable[[Collection[str]], str]
# transformers' quotes around a setting, and its words for settings without effect in the default search.
_NAMED = re.compile(r"`(\w+)`")
_WITHOUT_EFFECT = {
    "sample-based": "used for sampling only, and do_sample is not set",
    "beam-based": "used for beam search only, and num_beams is not above 1",
}
_LONGEST_VALUE, _LONGEST_REASON = 60, 160


def _is_id(value: Any) -> bool:
    return type(value) is int and -1 <= value < PIECES.value  # -1 in published models: no such token


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_id, value))


def _is_sequence(value: Any) -> bool:
    """Whether it is a sequence of tokens that can occur."""
    return _are_ids(value) and value != [] and min(value) >= 0


def _is_number(lowest: float, highest: float, value: Any) -> bool:
    return type(value) in (int, float) and lowest <= value <= highest


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_SEQUENCE_LENGTH


# Settings that take part in every search, with what transformers can work with.
_Rule = tuple[Callable[[Any], bool], str]
_ID: _Rule = (_is_id, "a token id")
_IDS: _Rule = (lambda value: _is_id(value) or (_are_ids(value) and value != []), "a token id or a list of them")
_COUNT: _Rule = (_is_count, "a number of tokens")
_PENALTY: _Rule = (partial(_is_number, 1e-3, 1e3), "a number from 0.001 to 1000")
_VALUES: Mapping[str, _Rule] = {
    **dict.fromkeys(("bos_token_id", "pad_token_id", "decoder_start_token_id", "forced_bos_token_id"), _ID),
    **dict.fromkeys(("eos_token_id", "forced_eos_token_id"), _IDS),
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens"), (_are_ids, "a list of token ids")),
    **dict.fromkeys(("min_length", "min_new_tokens", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size"), _COUNT),
    **dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty"), _PENALTY),
    **dict.fromkeys(
        ("renormalize_logits", "remove_invalid_values"), (lambda value: type(value) is bool, "true or false")
    ),
    "length_penalty": (partial(_is_number, -100, 100), "a number from -100 to 100"),
    "guidance_scale": (lambda value: value == 1, "1 (texts are generated without a second prompt)"),
    "bad_words_ids": (
        lambda value: isinstance(value, list) and all(map(_is_sequence, value)),
        "a list of lists of token ids",
    ),
    "sequence_bias": (
        lambda value: (
            isinstance(value, list)
            and all(isinstance(entry, list) and len(entry) == 2 for entry in value)
            and all(_is_sequence(ids) and _is_number(-1e4, 1e4, bias) for ids, bias in value)
        ),
        "a list of pairs of token ids and a bias",
    ),
    "exponential_decay_length_penalty": (
        lambda value: (
            isinstance(value, list) and len(value) == 2 and _is_count(value[0]) and _is_number(0, 100, value[1])
        ),
        "a number of tokens and a factor",
    ),
}

# Lists that change nothing if they are empty, and which transformers then refuses while it generates.
_NEVER_EMPTY = ("bad_words_ids", "sequence_bias")


def loadable(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The settings of a file without those that prevent transformers from loading it; these are reported.

    Raises UserError for values with which transformers would fail while it generates, and if its error cannot be
    attributed to single settings.
    """
    from transformers import GenerationConfig

    settings = {name: value for name, value in settings.items() if value != [] or name not in _NEVER_EMPTY}
    for name, (is_valid, expected) in _VALUES.items():
        if (value := settings.get(name)) is not None and not is_valid(value):
            what = f"{name} is {_shorten(repr(value), _LONGEST_VALUE)}, where {expected} is expected"
            raise UserError(what, where=where, hint="Correct the entry, or remove it.")

    def find_error(without: Collection[str]) -> str:
        return _error_message(lambda: GenerationConfig(**{k: v for k, v in settings.items() if k not in without}))

    invalid = _find_invalid(settings, find_error, where)
    return {name: value for name, value in settings.items() if name not in invalid}


def savable(settings: GenerationConfig) -> GenerationConfig:
    """A copy without the settings that prevent transformers from saving it; these are reported.

    Raises UserError if the error cannot be attributed to single settings.
    """

    def copy_without(names: Collection[str]) -> GenerationConfig:
        copy = deepcopy(settings)
        for name in names:
            setattr(copy, name, None)
        return copy

    entries = {name: value for name, value in vars(settings).items() if value is not None}
    find_error: _FindError = lambda names: _error_message(lambda: copy_without(names).validate(strict=True))  # noqa: E731
    return copy_without(_find_invalid(entries, find_error, "generation_config.json"))


def _error_message(check: Callable[[], object]) -> str:
    try:
        check()
    except (ValueError, TypeError, AttributeError, KeyError) as error:  # settings of a wrong type
        return str(error) or type(error).__name__
    return ""


def _find_invalid(settings: Mapping[str, Any], find_error: _FindError, where: str) -> dict[str, str]:
    """The settings that must be removed to make the others valid, with reasons; they are reported in one line."""
    from transformers import GenerationConfig

    invalid: dict[str, str] = {}
    known = [name for name in vars(GenerationConfig()) if name in settings]
    while message := find_error(invalid):
        quoted = [name for name in _NAMED.findall(message) if name in settings]
        name = next((name for name in (*quoted, *known) if find_error({*invalid, name}) != message), None)
        if name is None:
            raise UserError(f"transformers does not accept these generation settings: {message}", where=where)
        lines = message.splitlines()
        line = next((line for line in lines if line.startswith(f"- `{name}`")), lines[0])
        reason = next((reason for phrase, reason in _WITHOUT_EFFECT.items() if phrase in line), "")
        invalid[name] = reason or _shorten(line.removeprefix(f"- `{name}`: ").replace("`", ""), _LONGEST_REASON)
    if invalid:
        reasons: dict[str, list[str]] = {}
        for name, reason in invalid.items():
            reasons.setdefault(reason, []).append(_shorten(f"{name} {settings[name]!r}", _LONGEST_VALUE))
        parts = [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]
        say(f"{where}: generation settings left out: {'; '.join(parts)}", to=sys.stderr)
    return invalid


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


# Returns the new id of a token, None if it has none. Its second argument is the role that a setting's name states.
NewId = Callable[[int, str], int | None]
# Settings with token ids, next to those named `…_token_id`: lists of ids, of sequences of ids, or of pairs.
_LISTS = ("suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "force_words_ids")
_BIAS, _POSITIONS = "sequence_bias", "forced_decoder_ids"
# Ids of another vocabulary than the decoder's, which new embeddings bring along.
_OF_SOURCE = ("encoder_", "source_")


def with_new_ids(settings: Mapping[str, Any], new_id: NewId) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """The settings of a model or of its generation that name token ids, with new ids; and the items that have none."""
    values: dict[str, Any] = {}
    lost: dict[str, list[Any]] = {}
    for name, value in settings.items():
        if value is None or name.startswith(_OF_SOURCE):
            continue
        if name.endswith("_token_id"):
            role = "bos" if name.startswith("decoder_start") else name.removesuffix("_token_id").rpartition("_")[2]
            # Early Llama checkpoints represent a missing token by -1.
            items = [item for item in (value if isinstance(value, list) else [value]) if item >= 0]
            new: list[Any] = [new_id(item, role) for item in items]
            existing = list(dict.fromkeys(item for item in new if item is not None))
            values[name] = existing if isinstance(value, list) and existing else next(iter(existing), None)
        elif name in (*_LISTS, _POSITIONS, _BIAS):
            items = [list(pair) for pair in value.items()] if isinstance(value, dict) else list(value)
            new = [_renumbered(name, item, new_id) for item in items]
            existing = [item for item in new if item is not None]
            values[name] = (dict(existing) if isinstance(value, dict) else existing) or None
        else:
            continue
        if missing := [item for item, known in zip(items, new, strict=True) if known is None]:
            lost[name] = missing
    return values, lost


def _renumbered(name: str, item: Any, new_id: NewId) -> Any:
    """An item of a list with new ids; None if a token has none."""
    if isinstance(item, int):
        return new_id(item, "")
    if name == _BIAS:
        sequence, bias = item
        if isinstance(sequence, str):  # transformers saves a tuple so
            sequence = tuple(map(int, re.findall(r"\d+", sequence)))
        ids = _renumbered("", sequence, new_id)
        return None if ids is None else [tuple(ids) if isinstance(sequence, tuple) else ids, bias]
    if name == _POSITIONS:
        position, token = item
        new = None if token is None else new_id(token, "")
        return None if new is None and token is not None else [position, new]
    parts = [_renumbered(name, part, new_id) for part in item]
    return None if None in parts else parts
