"""Redact passwords, tokens and keys in every text that leaves a process: records, MLflow, errors and pages.

Replaced by `***` are: the user and password of a URL, values after a name such as `password=` or `HF_TOKEN=`, tokens in
the formats of hubs and clouds, and the values of environment variables with such a name. A secret without a name or a
known format cannot be detected.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"
# A shorter value of an environment variable could be any word.
SHORTEST = 6
_MASK = rf"\1{HIDDEN}"  # the name stays

# The end of a name. `token` alone is usually a token of a vocabulary, so a secret one needs a longer name.
_NAME = (
    r"(?:password|passwd|passphrase|secret|(?:api|access|private|secret)[_-]?key"
    r"|(?:access|api|auth|bearer|hf|hub|identity|refresh|security|session|tracking)[_-]?token)"
)
# Of the environment: PGPASSWORD and MYTOKEN too; PWD and PASS only after an underscore, as others end in these.
_ENDING = r"(?:TOKEN|PASSWORD|PASSWD|PASSPHRASE|SECRET|KEY|_PWD|_PASS)"
_VARIABLE_NAME = rf"[A-Z][A-Z0-9_]*{_ENDING}"
_IS = r"(?:\\*[\"'])?\s*(?:[=:]|%3[AaDd])\s*"  # after a name: also in JSON within JSON, and in an encoded address
# Within quotes to their end, over lines and escaped quotes; quotes that do not end, to the end of the line.
_VALUE = (
    r"(?![$<…*])"  # no $(…) or <…> of a hint
    r"(?:(?P<quote>\\+[\"'])[\s\S]{0,5000}?(?P=quote)"
    r"|\"(?:[^\"\\]|\\[\s\S]){0,5000}\"|'(?:[^'\\]|\\[\s\S]){0,5000}'"
    r"|[\"'][^\n]*|[^\s,;&\"'`)\]}]+)"
)
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"),
        HIDDEN,
    ),
    # https://user:password@host, also where the password has an @ of its own
    (re.compile(r"(?<=://)[^\s/?#\"'`<>]+@"), f"{HIDDEN}@"),
    # https://host/path?token=…
    (re.compile(r"(?i)([?&][\w.-]{0,40}(?:token|secret|signature|credential|key|sig|code)=)[^&\s\"'#]+"), _MASK),
    (re.compile(r"(?i)(\bauthorization[\"']?\s*[:=]\s*[\"']?(?:(?:basic|bearer|token)\s+)?)[^\s,;\"']+"), _MASK),
    (re.compile(r"(?i)(\bbearer\s+)(?=\S*\d)[\w.~+/=-]{12,}"), _MASK),
    # password=…, and "secret": "…"
    (re.compile(rf"(?i)({_NAME}{_IS}){_VALUE}"), _MASK),
    (re.compile(rf"(?i)((?<![\w.-])token=){_VALUE}"), _MASK),
    (re.compile(rf"(\b{_VARIABLE_NAME}{_IS}){_VALUE}"), _MASK),
    # --password …, where no other option follows
    (re.compile(rf"(?i)((?<!\S)--?(?:[\w.-]{{0,40}}{_NAME}|token)\s+)(?!--){_VALUE}"), _MASK),
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
_VARIABLE = re.compile(rf"\w*(?:{_ENDING}|SECRET\w*)", re.IGNORECASE)
_USER_AND_PASSWORD = re.compile(r"://([^\s/?#]+)@")


def redacted(text: str) -> str:
    """The text with every secret replaced by `***`.

    Lone surrogates, such as those of file names that are not UTF-8, are escaped.
    """
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    for secret in _in_environment(os.environ):
        text = text.replace(secret, HIDDEN)
    for pattern, shown in _RULES:
        text = pattern.sub(shown, text)
    return text


def redacted_words(words: Iterable[str]) -> tuple[str, ...]:
    """The words of a command line, each redacted; a word after one such as `--password` is a secret too."""
    results: list[str] = []
    before = ""
    for word in words:
        follows = before.startswith("-") and _SECRET_NAME.fullmatch(before.lstrip("-"))
        results.append(HIDDEN if follows else redacted(word))
        before = word
    return tuple(results)


def redacted_values(value: Any) -> Any:
    """The value with every text in it redacted, and every value hidden whose name is that of a secret."""
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
    """The secrets in environment variables: values by name, and passwords in URLs of any; the longest first."""
    secrets = set[str]()
    for name, value in variables.items():
        if _VARIABLE.fullmatch(name):
            secrets.update(_forms(value))
        for password in _passwords_in(value):
            secrets.update(_forms(password))
    return sorted(secrets, key=lambda one: (-len(one), one))


@cache
def _forms(secret: str) -> tuple[str, ...]:
    """The forms of a secret: unchanged, URL-encoded, in JSON, as a Python literal, and each of its lines."""
    secret = secret.encode("utf-8", "backslashreplace").decode("utf-8")
    lines = [line.strip() for line in secret.splitlines() if not line.startswith("-----")]  # nothing secret in PEM's
    encoded = [quote(secret), quote(secret, safe=""), quote_plus(secret)]
    encoded += [re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), one) for one in encoded]
    shown = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]]
    forms = {secret, unquote(secret), *lines, *encoded, *shown}
    return tuple(form for form in forms if len(form) >= SHORTEST)


def _passwords_in(value: str) -> Iterator[str]:
    for credentials in _USER_AND_PASSWORD.findall(value):
        _, parted, password = credentials.partition(":")
        # A token may stand alone in place of user and password; a user name alone is none.
        if parted:
            yield password
