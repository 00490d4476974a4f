"""Shared by commands: the parser, options and types of arguments, and JSON output. A mistake becomes one message."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from datetime import datetime
from difflib import get_close_matches
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, get_args

from subgraft.base.errors import UserError
from subgraft.base.security.terminal_escaping import write
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import MAX_LOST_LINES, SideName

if TYPE_CHECKING:
    from subgraft.base.terminal import Terminal


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def console() -> Terminal:
    """Standard output."""
    from subgraft.base.terminal import Terminal

    return Terminal()


MODEL_HELP = "a directory, a hub id, or models:/NAME@ALIAS"


class ModelName(str):
    """What an option names as a model. `main` looks for it before a command imports torch, which takes seconds.

    `evaluate` has none: it compares its options and files first.
    """


# "en", "en_XX" and "zh-Hant"; a hyphen before a small letter parts two languages.
_CODE = r"[a-z]{2,3}(?:_[A-Za-z]{2,4}|-[A-Z][A-Za-z]{1,3})?"
_LANGUAGES = re.compile(rf"({_CODE})(?:-({_CODE}))?")
_UNBOUNDED = 2**31 - 1
_OPTION = re.compile(r"--?[A-Za-z][\w-]*")
# The minimum similarity of a suggested name (difflib's ratio, 1 for equal names).
_MIN_SIMILARITY = 0.6


class Parser(argparse.ArgumentParser):
    """Raises UserError where argparse prints its usage and exits, with the nearest known name."""

    @property
    def _command(self) -> str:
        return self.prog.removeprefix("subgraft").strip()

    def error(self, message: str) -> NoReturn:
        raise UserError(message, where=self._command, hint=f"`{self.prog} --help` shows its arguments.")

    def parse(self, arguments: Sequence[str] | None) -> argparse.Namespace:
        """As parse_args, but the words of a list may be on both sides of an option. Raises UserError."""
        parsed: argparse.Namespace = self.parse_known_args(arguments)[0]
        return parsed

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """As argparse's, but unexpected arguments are an error, and unknown options are reported before missing."""
        words = self._with_model(list(sys.argv[1:] if args is None else args))
        self._require_known_options(words)
        if self._subparsers is not None:
            return super().parse_known_args(words, namespace)
        model = self._unnamed_model(words)
        if model is not None:
            model.required = False
        try:
            parsed, remaining = super().parse_known_args(words, namespace)
        finally:
            if model is not None:
                model.required = True
        if model is not None:
            if not remaining:
                self.error("the following arguments are required: --model")
            setattr(parsed, model.dest, self._get_value(model, remaining.pop(0)))
        # argparse fills positional arguments in one place only, and returns those after an option.
        lists = [each for each in self._actions if not each.option_strings and each.nargs in ("*", "+")]
        if remaining and lists:
            more = [self._get_value(lists[-1], word) for word in remaining]
            setattr(parsed, lists[-1].dest, [*getattr(parsed, lists[-1].dest), *more])
        elif remaining:
            self.error(f"unexpected: {' '.join(remaining)}")
        return parsed, []

    def _unnamed_model(self, words: Sequence[str]) -> argparse.Action | None:
        """The option --model that a command requires, if a word after other options seems to be MODEL."""
        option = self._option_string_actions.get("--model")
        if option is None or not option.required or _names_model(words):
            return None
        alone = any(not (before.startswith("-") or word.startswith("-")) for before, word in pairwise(["", *words]))
        return option if alone else None

    def _with_model(self, words: list[str]) -> list[str]:
        """The words with MODEL in place of --model MODEL, or --model before a first MODEL, as this command has it."""
        positional = [each for each in self._actions if not each.option_strings]
        if "--model" in self._option_string_actions:
            named = positional or _names_model(words) or not words or words[0].startswith("-")
            return words if named else ["--model", *words]
        if not positional or positional[0].metavar != "MODEL":
            return words
        options = words[: words.index("--")] if "--" in words else words
        for index, word in enumerate(options):
            if word.startswith("--model="):
                return [word.removeprefix("--model="), *words[:index], *words[index + 1 :]]
            if word == "--model" and index + 1 < len(options):
                return [words[index + 1], *words[:index], *words[index + 2 :]]
        return words

    def _require_known_options(self, words: Sequence[str]) -> None:
        for word in words:
            if word == "--" or (self._subparsers is not None and not word.startswith("-")):
                return  # another parser reads the rest
            option = word.partition("=")[0]
            known = self._option_string_actions
            if _OPTION.fullmatch(option) and not any(name.startswith(option) for name in known):
                suggestion = nearest(f"--{option.lstrip('-')}", [name for name in known if name != "-h"])
                self.error_with_nearest(f"unknown option {option}", suggestion, "options")

    def error_with_nearest(self, message: str, suggestion: str, kind: str) -> NoReturn:
        """As `error`, with the nearest name, if there is one, in the hint."""
        question = f"Did you mean {suggestion}? " if suggestion else ""
        raise UserError(message, where=self._command, hint=f"{question}`{self.prog} --help` shows its {kind}.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = None if action.choices is None else [str(choice) for choice in action.choices]
        if choices is None or str(value) in choices:
            return
        suggestion = nearest(str(value), choices)
        if isinstance(action.choices, Mapping):  # a parser by name
            self.error_with_nearest(
                f"unknown command '{value}'", suggestion and f"`{self.prog} {suggestion}`", "commands"
            )
        name = "/".join(action.option_strings) or action.metavar or action.dest
        self.error_with_nearest(f"{name} is one of {', '.join(choices)}, found '{value}'", suggestion, "arguments")


def _names_model(words: Sequence[str]) -> bool:
    return any(word.partition("=")[0] == "--model" for word in words)


class Options(Protocol):
    """A command's parser, or a group of its options."""

    def add_argument(self, *names: Any, **settings: Any) -> Any: ...


def add_json(command: Options) -> None:
    command.add_argument("--json", action="store_true", help="print JSON in place of a table")


def add_out(command: Options, help: str = "absent or empty") -> None:
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help=help)


def add_config(command: Options, config: str, overrides: str) -> None:
    """An experiment's YAML file and its overrides; the arguments are their helps."""
    command.add_argument("config", type=Path, metavar="CONFIG", help=config)
    command.add_argument("overrides", nargs="*", default=[], metavar="key=value", help=overrides)


def add_finished_run(command: Options) -> None:
    """A run, by its name, id or configuration."""
    command.add_argument("run", metavar="RUN|CONFIG", help="a run's name or id, or the experiment's YAML file")
    command.add_argument(
        "overrides", nargs="*", default=[], metavar="key=value", help="the changes that the experiment was run with"
    )


TEXT_HELP = "files or folders of text (lines, plain or gzipped; JSON lines, CSV, TSV, Parquet), or a data set"


def add_text(command: Options) -> None:
    command.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE", help=TEXT_HELP)
    add_text_field(command)


def add_text_field(command: Options) -> None:
    field = "the column of the text in JSON lines, tables and data sets (default: text)"
    command.add_argument("--field", default="text", metavar="NAME", help=field)


def add_max_lost_lines(command: Options) -> None:
    what = "share of the text's lines that the old vocabulary gives back and the new one may change"
    share = f"{what} (default {MAX_LOST_LINES:g})"
    number = number_in("from 0 to 1", lambda value: 0 <= value <= 1)
    command.add_argument("--max-lost-lines", type=number, default=MAX_LOST_LINES, metavar="SHARE", help=share)


def add_field(command: Options, help: str) -> None:
    command.add_argument("--field", type=_field, action="append", default=[], metavar="[ROLE=]NAME", help=help)


def _field(text: str) -> tuple[str, str]:
    """A role, by default that of the text, and the name of its column."""
    role, _, name = text.rpartition("=")
    return role or "text", name


def text_field(arguments: argparse.Namespace) -> str | None:
    """The column of the text. Raises UserError for another one."""
    if other := [role for role, _ in arguments.field if role != "text"]:
        raise UserError(f"text has no column {other[0]}", where="--field", hint="Give --field NAME.")
    return dict(arguments.field).get("text")


def add_languages(command: Options, help: str, required: bool = False) -> None:
    command.add_argument("--languages", type=language_pair, required=required, metavar="SOURCE-TARGET", help=help)


def input_file(name: str) -> Path | None:
    """The file to read; None for `-`, standard input."""
    return None if name == "-" else Path(name)


def standard_input() -> Iterator[str]:
    """The lines of standard input, by the rules of files. Raises UserError that names a line that is not UTF-8."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise UserError("not UTF-8", where=f"standard input:{number}", hint="Convert the text to UTF-8.") from None


def selected(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The values of some arguments, for the parameters of a function that have their names."""
    return {name: getattr(arguments, name) for name in names}


def nearest(word: str, names: Iterable[str]) -> str:
    """The name most similar to a word; '' if none is similar."""
    return next(iter(get_close_matches(word, list(names), n=1, cutoff=_MIN_SIMILARITY)), "")


def whole_number(minimum: int, maximum: int = _UNBOUNDED) -> Callable[[str], int]:
    """A type of argument: a whole number in a range."""
    bounds = f"from {minimum} on" if maximum == _UNBOUNDED else f"from {minimum} to {maximum}"

    def convert(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,18}", text) or not minimum <= int(text) <= maximum:
            raise argparse.ArgumentTypeError(f"expected a whole number {bounds}, found '{text}'")
        return int(text)

    return convert


def number_in(bounds: str, is_in: Callable[[float], bool]) -> Callable[[str], float]:
    """A type of argument: a number within bounds, which an error names."""

    def convert(text: str) -> float:
        with suppress(ValueError):
            if "_" not in text and is_in(float(text)):  # Python reads 1_0 as 10
                return float(text)
        raise argparse.ArgumentTypeError(f"expected a number {bounds}, found '{text}'")

    return convert


def languages(text: str) -> Languages:
    """A type of argument: two languages, as in en-de, or one."""
    match = _LANGUAGES.fullmatch(text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected two language codes, as in en-de or en_XX-de_DE, found '{text}'")
    return Languages(source=match[1], target=match[2] or match[1])


def corpus_languages(text: str) -> Languages | tuple[str, ...]:
    """A type of argument: as `languages`, or the names of any number of texts, separated by commas, as in en,fr,de."""
    return tuple(filter(None, text.split(","))) if "," in text else languages(text)


def language_pair(text: str) -> Languages:
    """A type of argument: the languages of source and target, as in en-de; en-en for one language."""
    pair = languages(text)
    if text == pair.source:
        raise argparse.ArgumentTypeError(f"expected two language codes, as in en-de or en-en, found '{text}'")
    return pair


def new_language(text: str) -> tuple[str, str]:
    """A type of argument: a language that a model lacks and the initialiser of its code, as in ukr=mean."""
    language, _, initialiser = text.partition("=")
    if not (language and initialiser):
        raise argparse.ArgumentTypeError(f"expected a language and its initialiser, as in ukr=mean, found '{text}'")
    return language, initialiser


def sides(text: str) -> tuple[SideName, ...]:
    """A type of argument: decoder, encoder, or both with a comma."""
    names = text.split(",")
    allowed: dict[str, SideName] = {side: side for side in get_args(SideName)}
    if len(set(names)) < len(names) or not set(names) <= allowed.keys():
        raise argparse.ArgumentTypeError(f"expected decoder, encoder or encoder,decoder, found '{text}'")
    return tuple(allowed[side] for side in names)


def print_json(**entries: Any) -> None:
    """Print one object with stable names (docs/guide.md).

    Dataclasses become objects, NaN and infinity null, times ISO 8601.
    """
    write(json.dumps(_to_json(entries), indent=1, ensure_ascii=False, allow_nan=False))


def _to_json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _to_json(entry) for key, entry in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Enum):
        return _to_json(value.value)
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, Path):
        return str(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Iterable):
        return [_to_json(entry) for entry in value]
    raise TypeError(f"no JSON form for {type(value).__name__}")
