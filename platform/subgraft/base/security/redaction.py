"""Redact passwords, tokens and keys in every text that leaves a process: records, MLflow, errors and pages.

Replaced by `***` are: the user and password of a URL, values after a name such as `password=` or `HF_TOKEN=`, tokens in
the formats of hubs and clouds, and the values of environment variables with such a name. A secret without a name or a
known format cannot be detected.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

REDACTED = "***"
# Shorter values of environment variables might be ordinary words, so they are not redacted.
MIN_SECRET_LENGTH = 6
_MASK = rf"\1{REDACTED}"  # group 1 is the name, which remains

# The end of a secret's name. `token` alone is usually a token of a vocabulary, so secret tokens need a longer name.
_SECRET_KEY = (
    r"(?:password|passwd|passphrase|secret|(?:api|access|private|secret)[_-]?key"
    r"|(?:access|api|auth|bearer|hf|hub|identity|refresh|security|session|tracking)[_-]?token)"
)
# The end of an environment variable's name, as in PGPASSWORD and MYTOKEN. PWD and PASS need an underscore before them,
# because harmless names also end in these.
_ENDING = r"(?:TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|KEY|_PWD|_PASS)"
_VARIABLE_NAME = rf"[A-Z][A-Z0-9_]*{_ENDING}"
_ASSIGNMENT = r"(?:\\*[\"'])?\s*(?:[=:]|%3[AaDd])\s*"  # after a name; also in JSON within JSON, and in an encoded URL
# A quoted value ends at the closing quote, across lines and escaped quotes, or without one at the end of the line.
_VALUE = (
    r"(?![$<…*])"  # not a placeholder of a hint, such as $(…) or <…>
    r"(?:(?P<quote>\\+[\"'])[\s\S]{0,5000}?(?P=quote)"
    r"|\"(?:[^\"\\]|\\[\s\S]){0,5000}\"|'(?:[^'\\]|\\[\s\S]){0,5000}'"
    r"|[\"'][^\n]*|[^\s,;&\"'`)\]}]+)"
)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"),
        REDACTED,
    ),
    # https://user:password@host; the password may contain an @
    (re.compile(r"(?<=://)[^\s/?#\"'`<>]+@"), f"{REDACTED}@"),
    # https://host/path?token=…
    (re.compile(r"(?i)([?&][\w.-]{0,40}(?:token|secret|signature|credential|key|sig|code)=)[^&\s\"'#]+"), _MASK),
    (re.compile(r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:(?:basic|bearer|token)\s+)?)[^\s,;\"']+"), _MASK),
    (re.compile(r"(?i)(\bbearer\s+)(?=\S*\d)[\w.~+/=-]{12,}"), _MASK),
    # password=…, and "secret": "…"
    (re.compile(rf"(?i)({_SECRET_KEY}{_ASSIGNMENT}){_VALUE}"), _MASK),
    (re.compile(rf"(?i)((?<![\w.-])token=){_VALUE}"), _MASK),
    (re.compile(rf"(\b{_VARIABLE_NAME}{_ASSIGNMENT}){_VALUE}"), _MASK),
    # --password …, unless another option follows
    (re.compile(rf"(?i)((?<!\S)--?(?:[\w.-]{{0,40}}{_SECRET_KEY}|token)\s+)(?!--){_VALUE}"), _MASK),
    # Tokens of Hugging Face, GitHub, GitLab, AWS, OpenAI and Anthropic, Slack, Google, and JSON web tokens
    (
        re.compile(
            r"\b(?:hf_[A-Za-z0-9]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{15,}"
            r"|(?:AKIA|ASIA)[A-Z0-9]{16}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|AIza[\w-]{35}"
            r"|eyJ[\w-]{8,2000}\.[\w-]{8,4000}\.[\w-]+)"
        ),
        REDACTED,
    ),
)
_SECRET_NAME = re.compile(rf"(?i:[\w.-]*{_SECRET_KEY}|token)|{_VARIABLE_NAME}")
_VARIABLE = re.compile(rf"\w*(?:{_ENDING}|SECRET\w*)", re.IGNORECASE)
_USER_AND_PASSWORD = re.compile(r"://([^\s/?#]+)@")


def redact(text: str) -> str:
    """Replace every secret in a text by `***`.

    Lone surrogates, such as those of file names that are not UTF-8, are escaped.
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    for secret in _environment_secrets(os.environ):
        text = text.replace(secret, REDACTED)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def redact_words(words: Iterable[str]) -> tuple[str, ...]:
    """Redact the words of a command line; the word after an option such as `--password` is a secret too."""
    results: list[str] = []
    previous = ""
    for word in words:
        is_secret = previous.startswith("-") and _SECRET_NAME.fullmatch(previous.lstrip("-"))
        results.append(REDACTED if is_secret else redact(word))
        previous = word
    return tuple(results)


def redact_values(value: Any) -> Any:
    """Redact every string inside a JSON value, and replace strings whose key is the name of a secret."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: _redact_item(name, inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [redact_values(inner) for inner in value]
    return value


def _redact_item(name: Any, value: Any) -> Any:
    key = str(name).rpartition(".")[2]
    is_secret = isinstance(value, str) and value and _SECRET_NAME.fullmatch(key)
    return REDACTED if is_secret else redact_values(value)


def _environment_secrets(variables: Mapping[str, str]) -> list[str]:
    """The secrets in environment variables, longest first: values of secret names, and passwords in any URL."""
    secrets = set[str]()
    for name, value in variables.items():
        if _VARIABLE.fullmatch(name):
            secrets.update(_encoded_forms(value))
        for credentials in _USER_AND_PASSWORD.findall(value):
            _, colon, password = credentials.partition(":")
            if colon:  # else it is a user name alone
                secrets.update(_encoded_forms(password))
    return sorted(secrets, key=lambda secret: (-len(secret), secret))


@cache
def _encoded_forms(secret: str) -> tuple[str, ...]:
    """The forms of a secret: unchanged, URL-encoded, in JSON, as a Python literal, and each of its lines."""
    secret = secret.encode("utf-8", "backslashreplace").decode("utf-8")
    lines = [
        line.strip() for line in secret.splitlines() if not line.startswith("-----")
    ]  # PEM's delimiter lines are not secret
    encoded = [quote(secret), quote(secret, safe=""), quote_plus(secret)]
    encoded += [re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), form) for form in encoded]
    quoted = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]]
    forms = {secret, unquote(secret), *lines, *encoded, *quoted}
    return tuple(form for form in forms if len(form) >= MIN_SECRET_LENGTH)
