"""Read a YAML configuration into typed, frozen settings, reporting every mistake at once, with its place."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from subgraft.base.errors import UserError
from subgraft.base.files import require_path
from subgraft.base.security.limits import CONFIGURATION_BYTES
from subgraft.config.deprecated_settings import find_deprecated
from subgraft.config.settings_base import Settings, groups_in
from subgraft.config.yaml_tree import Mistake, PathTo, Tree, parse

M = TypeVar("M", bound=BaseModel)

# pydantic's most common messages, in terms of the YAML.
_EXPECTED = {
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
    "string_type": "expected text",
    "tuple_type": "expected a list",
    "list_type": "expected a list",
    "dict_type": "expected a mapping of names to values",
    "model_type": "expected a mapping of names to values",
    "model_attributes_type": "expected a mapping of names to values",
    "too_short": "expected a list of at least {min_length}",
}


def load(path: Path, model: type[M], overrides: Sequence[str] = ()) -> M:
    """Read `path` as YAML 1.2 and validate it as `model`, after applying `overrides`.

    Nothing is coerced: a number in quotes is text. Lists become tuples.

    Args:
        path: the configuration file.
        model: the class of the settings.
        overrides: each `key=value`: a dotted path (list items by index) and a value read as YAML.

    Raises:
        UserError: with one line per mistake, `file:line: field.path: message` or `override key=value: field.path:
            message`: unknown fields (with the nearest name), values of the wrong type or out of range, missing fields,
            duplicate keys, broken YAML, a missing file, broken UTF-8. If there are deprecated settings, only these are
            reported, each with the line to write.
    """
    tree = parse(_read(path), str(path))
    broken = bool(tree.mistakes) and not tree.places
    for override in () if broken else overrides:
        _override(tree, override)
    deprecated = [] if broken else list(find_deprecated(tree, lambda path: path[-1] in _field_names(model, path[:-1])))
    tree.mistakes += deprecated
    # Other mistakes are reported once the deprecated settings are corrected.
    if not broken and not deprecated:
        settings = _validate(tree, model)
        if settings is not None and not tree.mistakes:
            return settings
    raise UserError("\n".join(dict.fromkeys(map(str, tree.mistakes))))


def _read(path: Path) -> str:
    require_path(path)
    try:
        with path.open("rb") as stream:
            raw = stream.read(CONFIGURATION_BYTES + 1)
    except FileNotFoundError:
        raise UserError("no such configuration file", where=str(path)) from None
    except IsADirectoryError:
        raise UserError("a configuration file was expected, this is a folder", where=str(path)) from None
    if len(raw) > CONFIGURATION_BYTES:
        raise UserError(f"a configuration of more than {CONFIGURATION_BYTES:,} bytes", where=str(path))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError("not UTF-8", where=f"{path}:{line}", hint="Save the file as UTF-8.") from None


def _override(tree: Tree, override: str) -> None:
    origin = f"override {override}"
    key, equals, value = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        tree.mistakes.append(Mistake((), origin, "expected key=value, as in training.seed=1"))
        return
    branch = parse(value, origin, numbered=False)
    if not branch.places:
        tree.mistakes += branch.mistakes
        return
    path = _resolve_path(tree.data, parts)
    try:
        tree.put(path, branch)
    except (KeyError, IndexError):
        tree.mistakes.append(Mistake(path, origin, "leads through a value without such an entry"))


def _resolve_path(data: Any, parts: Sequence[str]) -> PathTo:
    """The path of dotted parts; digits are an index if the data has a list there, and a key otherwise."""
    path: list[str | int] = []
    for part in parts:
        key = int(part) if isinstance(data, list) and part.isdecimal() else part
        path.append(key)
        if isinstance(key, int):
            data = data[key] if key < len(data) else None
        else:
            data = data.get(key) if isinstance(data, dict) else None
    return tuple(path)


def _validate(tree: Tree, model: type[M]) -> M | None:
    data = {} if tree.data is None else tree.data
    try:
        # Strict, so that text never becomes a number and `no` never false; settings hold tuples, YAML lists.
        return model.model_validate(_with_tuples(data), strict=True)
    except ValidationError as error:
        reported = {(mistake.path, mistake.place) for mistake in tree.mistakes}
        for details in error.errors(include_url=False):
            if details["type"] == "default_factory_not_called":
                continue  # the settings that it depends on are wrong, which is reported
            if details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"]:
                continue  # its items are wrong, which is reported
            mistake = _mistake(tree, model, details)
            if (mistake.path, mistake.place) not in reported:
                tree.mistakes.append(mistake)
    tree.mistakes.sort(key=_line_order)
    return None


def _with_tuples(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _with_tuples(value) for key, value in data.items()}
    return tuple(_with_tuples(item) for item in data) if isinstance(data, list) else data


def _line_order(mistake: Mistake) -> tuple[bool, int]:
    line = re.search(r":(\d+)$", mistake.place)
    return (line is None, int(line[1]) if line else 0)


def _mistake(tree: Tree, model: type[BaseModel], details: ErrorDetails) -> Mistake:
    *parents, last = details["loc"] or ("",)
    kind = details["type"]
    path = _yaml_path(tree.data, parents if kind == "missing" else details["loc"])
    place = tree.place(path)
    if kind == "missing":
        return Mistake((*path, last), place, "required, but not given")
    if kind == "union_tag_invalid":
        return _unknown_union_member(tree, path, details["ctx"])
    if kind == "extra_forbidden":
        groups = _groups_with_field(model, parents, str(last))
        if groups:
            return Mistake(path, place, f"unknown field; only {_join_names(groups)} can have it")
        return Mistake(path, place, _unknown_field(str(last), _field_names(model, parents)))
    if kind == "value_error":
        message = _expected(details)
        return Mistake(path, tree.place(_path_in(message, tree, path)), message)
    choices = re.findall(r"'([^']+)'", str(details.get("ctx", {}).get("expected", "")))
    suggestion = _suggestion(str(details["input"]), choices)
    return Mistake(path, place, f"{_expected(details)}, found {_quote(details['input'])}{suggestion}")


def _path_in(message: str, tree: Tree, path: PathTo) -> PathTo:
    """The path of the setting with which a message on several settings at `path` begins."""
    named = message.partition(" ")[0].rstrip(":,")
    return (*path, *_resolve_path(tree.at(path), named.split(".")))


def _unknown_union_member(tree: Tree, path: PathTo, context: dict[str, Any]) -> Mistake:
    """The mistake of a value that selects no member of a union."""
    path = (*path, context["discriminator"].strip("'"))
    choices = re.findall(r"'([^']+)'", context["expected_tags"])
    expected = f"expected {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}"
    message = f"{expected}, found {_quote(context['tag'])}{_suggestion(context['tag'], choices)}"
    return Mistake(path, tree.place(path), message)


def _yaml_path(data: Any, location: Iterable[str | int]) -> PathTo:
    """pydantic's location without the parts that name a member of a union and not a key."""
    path: list[str | int] = []
    for part in location:
        is_key = part in data if isinstance(data, dict) else isinstance(data, list) and isinstance(part, int)
        if is_key:
            data = data[part]
            path.append(part)
    return tuple(path)


def _field_names(model: type[BaseModel], location: Iterable[str | int]) -> list[str]:
    return list(dict.fromkeys(name for m in _models_at(model, location) for name in m.model_fields))


def _groups_with_field(model: type[BaseModel], location: Sequence[str | int], name: str) -> list[str]:
    """Sibling groups of settings (with a common base class) that have a field which this group lacks."""
    present = _models_at(model, location)
    bases = tuple(base for group in present for base in group.__mro__ if base not in Settings.__mro__)
    return [
        setting
        for setting, field in model.model_fields.items()
        if setting not in location
        and any(issubclass(group, bases) and name in group.model_fields for group in groups_in(field.annotation))
    ]


def _join_names(names: Sequence[str]) -> str:
    """Format as `a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _models_at(model: type[BaseModel], location: Iterable[str | int]) -> list[type[BaseModel]]:
    models = [model]
    for part in location:
        inner = [
            group for m in models if part in m.model_fields for group in groups_in(m.model_fields[str(part)].annotation)
        ]
        models = inner or [m for m in models if _is_named(m, part)] or models
    return models


def _is_named(model: type[BaseModel], part: str | int) -> bool:
    """Whether `part` selects this member of a union: one of its fields allows this value only."""
    return any(get_args(field.annotation) == (part,) for field in model.model_fields.values())


def _unknown_field(name: str, known: Sequence[str]) -> str:
    # Letters abbreviate names, as lr does learning_rate.
    initials = {field: "".join(word[0] for word in field.split("_") if word) for field in known}
    longer = [field for field in known if len(name) > 1 and name in (initials[field], field[: len(name)])]
    matches = [*longer, *difflib.get_close_matches(name, known, n=1, cutoff=0.5)]
    return "unknown field; " + (f"did you mean '{matches[0]}'?" if matches else f"known: {', '.join(known)}")


def _suggestion(value: str, choices: Sequence[str]) -> str:
    matches = difflib.get_close_matches(value, choices, n=1)
    return f"; did you mean '{matches[0]}'?" if matches else ""


def _expected(details: ErrorDetails) -> str:
    if details["type"] == "value_error":
        return str(details["ctx"]["error"])
    expected = _EXPECTED.get(details["type"], details["msg"].replace("Input should be", "expected", 1))
    return expected.format(**details.get("ctx", {})) if details["type"] == "too_short" else expected


def _quote(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
