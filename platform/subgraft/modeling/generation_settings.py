# mypy: allow-untyped-calls
"""Published generation settings without those that transformers rejects, which are reported.

transformers refuses to load some combinations. It only warns about others, but refuses to save them after any change,
such as new ids of special tokens.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import UserError
from subgraft.base.terminal_escaping import say

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


def loadable(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The settings of a file without those that prevent transformers from loading it; these are reported.

    Raises UserError if the error cannot be attributed to single settings.
    """
    from transformers import GenerationConfig

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
        invalid[name] = _reason(message, name)
    if invalid:
        reasons: dict[str, list[str]] = {}
        for name, reason in invalid.items():
            reasons.setdefault(reason, []).append(_shorten(f"{name} {settings[name]!r}", _LONGEST_VALUE))
        parts = [f"{', '.join(names)} ({reason})" for reason, names in reasons.items()]
        say(f"{where}: generation settings left out: {'; '.join(parts)}", to=sys.stderr)
    return invalid


def _reason(message: str, name: str) -> str:
    """Why transformers rejects a setting, shortened."""
    lines = [line for line in message.splitlines() if line.startswith(f"- `{name}`")]
    line_of_setting = (lines or message.splitlines())[0]
    explanation = next((reason for phrase, reason in _WITHOUT_EFFECT.items() if phrase in line_of_setting), "")
    return explanation or _shorten(line_of_setting.removeprefix(f"- `{name}`: ").replace("`", ""), _LONGEST_REASON)


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
