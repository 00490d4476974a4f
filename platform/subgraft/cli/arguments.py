"""How commands read their arguments: every mistake becomes one message of our own."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from typing import NoReturn

from subgraft.config.corpora import Languages
from subgraft.errors import UserError

MODEL_HELP = "a directory, a hub id, or models:/NAME@ALIAS"
# "en", "en_XX" and "zh-Hant"; a hyphen before a small letter parts two languages.
_CODE = r"[a-z]{2,3}(?:_[A-Za-z]{2,4}|-[A-Z][A-Za-z]{1,3})?"
_LANGUAGES = re.compile(rf"({_CODE})(?:-({_CODE}))?")
_UNBOUNDED = 2**31 - 1


class Parser(argparse.ArgumentParser):
    """Raises UserError where argparse prints its usage and exits."""

    def error(self, message: str) -> NoReturn:
        command = self.prog.removeprefix("subgraft").strip()
        raise UserError(message, where=command, hint=f"`{self.prog} --help` shows its arguments.")

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """As parse_args, with a configuration's overrides anywhere behind it. Raises UserError."""
        chosen, left = self.parse_known_args(arguments)
        # argparse fills positional arguments in one place only, and gives back what stands behind an option.
        if left and "overrides" in chosen and not any(one.startswith("-") for one in left):
            chosen.overrides = [*chosen.overrides, *left]
        elif left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return chosen


def whole(least: int, most: int = _UNBOUNDED) -> Callable[[str], int]:
    """A type of argument: a whole number in a range."""
    bounds = f"from {least} on" if most == _UNBOUNDED else f"from {least} to {most}"

    def convert(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text) or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"expected a whole number {bounds}, found '{text}'")
        return int(text)

    return convert


def languages(text: str) -> Languages:
    """A type of argument: two languages, as in en-de, or one."""
    found = _LANGUAGES.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected two language codes, as in en-de or en_XX-de_DE, found '{text}'")
    return Languages(source=found[1], target=found[2] or found[1])


def corpus_languages(text: str) -> Languages | tuple[str, ...]:
    """A type of argument: as `languages`, or the names of any number of texts with commas, as in en,fr,de."""
    return tuple(filter(None, text.split(","))) if "," in text else languages(text)


def language_pair(text: str) -> Languages:
    """A type of argument: the languages of source and target, as in en-de, or en-en within one."""
    pair = languages(text)
    if text == pair.source:
        raise argparse.ArgumentTypeError(f"expected two language codes, as in en-de or en-en, found '{text}'")
    return pair


def fraction(text: str) -> float:
    """A type of argument: a number above 0 and below 1."""
    value = _number(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"expected a number between 0 and 1, found '{text}'")
    return value


def share(text: str) -> float:
    """A type of argument: a number above 0 and at most 1."""
    value = _number(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0 and at most 1, found '{text}'")
    return value


def _number(text: str) -> float:
    """What is no number becomes one that no range has."""
    try:
        return float(text)
    except ValueError:
        return math.nan
