"""Passwords, tokens and keys, taken out of every text that leaves a process: records, MLflow, errors and pages.

What is known for a secret is replaced by `***`: the user and password of an address, what follows a name such as
`password=` or `HF_TOKEN=`, the forms that hubs and clouds give their tokens, and the values themselves of what the
environment holds under such a name. A secret that nothing names, nobody can tell from a word.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

HIDDEN = "***"
# A value of the environment that is shorter could be any word.
SHORTEST = 6
_KEPT = rf"\1{HIDDEN}"  # the name stays

# The end of a name. Most tokens here are of a vocabulary, so what is one of the other kind says more.
_NAME = (
    r"(?:password|passwd|passphrase|secret|(?:api|access|private|secret)[_-]?key"
    r"|(?:access|api|auth|bearer|hf|hub|identity|refresh|security|session|tracking)[_-]?token)"
)
_VARIABLE_NAME = r"[A-Z][A-Z0-9_]*_(?:TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|KEY)"
_VALUE = r"""(?![$<…*])(?:"[^"\n]*"|'[^'\n]*'|[^\s,;&"'`)\]}]+)"""  # no $(…) or <…> of a hint
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    # https://user:password@host, also where the password has an @ of its own
    (re.compile(r"(?<=://)[^\s/?#\"'`<>]+@"), f"{HIDDEN}@"),
    # https://host/path?token=…
    (re.compile(r"(?i)([?&][\w.-]{0,40}(?:token|secret|signature|credential|key|sig|code)=)[^&\s\"'#]+"), _KEPT),
    (re.compile(r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:(?:basic|bearer|token)\s+)?)[^\s,;\"']+"), _KEPT),
    (re.compile(r"(?i)(\bbearer\s+)(?=\S*\d)[\w.~+/=-]{12,}"), _KEPT),
    # password=…, and "secret": "…"
    (re.compile(rf"(?i)({_NAME}[\"']?\s*[=:]\s*){_VALUE}"), _KEPT),
    (re.compile(rf"(?i)((?<![\w.-])token=){_VALUE}"), _KEPT),
    (re.compile(rf"(\b{_VARIABLE_NAME}\s*[=:]\s*){_VALUE}"), _KEPT),
    # --password …, where no other option follows
    (re.compile(rf"(?i)((?<!\S)--?(?:[\w.-]{{0,40}}{_NAME}|token)\s+)(?!--){_VALUE}"), _KEPT),
    # Tokens of Hugging Face, GitHub, GitLab, AWS, OpenAI and Anthropic, Slack, Google, and JSON web tokens
    (
        re.compile(
            r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}"
            r"|(?:AKIA|ASIA)[A-Z0-9]{16}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|AIza[\w-]{35}"
            r"|eyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]+)"
        ),
        HIDDEN,
    ),
)
_SECRET_NAME = re.compile(rf"(?i:[\w.-]*{_NAME}|token)|{_VARIABLE_NAME}")
_VARIABLE = re.compile(r"(?:\w+_)?(?:TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|KEY)|\w*SECRET\w*", re.IGNORECASE)
_USER_AND_PASSWORD = re.compile(r"://([^\s/?#]+)@")


def redacted(text: str) -> str:
    """The text with `***` in place of every secret in it; the same text where there is none.

    A half of a character (a lone surrogate, as of a file name that is not UTF-8), which no file can hold, is spelled.
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    for secret in _in_environment(os.environ):
        text = text.replace(secret, HIDDEN)
    for pattern, shown in _RULES:
        text = pattern.sub(shown, text)
    return text


def redacted_words(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command line, each as `redacted`; what follows a word such as `--password` is a secret too."""
    found: list[str] = []
    before = ""
    for word in words:
        follows = before.startswith("-") and _SECRET_NAME.fullmatch(before.lstrip("-"))
        found.append(HIDDEN if follows else redacted(word))
        before = word
    return tuple(found)


def redacted_values(value: Any) -> Any:
    """The same value with every text in it as `redacted`, and what has the name of a secret hidden."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {name: _named(name, inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_values(inner) for inner in value]
    return value


def _named(name: Any, value: Any) -> Any:
    last = str(name).rpartition(".")[2]
    hidden = isinstance(value, str) and value and _SECRET_NAME.fullmatch(last)
    return HIDDEN if hidden else redacted_values(value)


def _in_environment(variables: Mapping[str, str]) -> list[str]:
    """What variables with the name of a secret hold, and the passwords of addresses in any; the longest first."""
    found = set()
    for name, value in variables.items():
        if _VARIABLE.fullmatch(name):
            found.add(value)
        found.update(_passwords_in(value))
    return sorted((value for value in found if len(value) >= SHORTEST), key=lambda one: (-len(one), one))


def _passwords_in(value: str) -> Iterator[str]:
    for given in _USER_AND_PASSWORD.findall(value):
        _, parted, password = given.partition(":")
        # A token may stand alone in place of user and password; a user name alone is none.
        if parted:
            yield from (password, unquote(password))
