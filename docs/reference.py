"""Writes the pages of docs/ that are generated from the code: settings.md, commands.md, and tables of the guide.

    .venv/bin/python docs/reference.py

A test fails where they are not current.
"""

from __future__ import annotations

import argparse
import re
import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from subgraft.base.limits import MAX_COUNT
from subgraft.config.experiment import Experiment
from subgraft.config.experiment.json_schema import descriptions
from subgraft.config.settings_base import groups_in
from subgraft.contrib.allocation.settings import Allocation
from subgraft.data.tasks.registry import LABELLED_TASKS
from subgraft.embeddings.methods.registry import METHODS
from subgraft.interfaces.cli import parser
from subgraft.modeling.families.heads import CLASS_ENDINGS
from subgraft.training.understanding.registry import TASK_CLASSES
from subgraft.training.understanding.task import LabelledTask

ROOT = Path(__file__).resolve().parent.parent
MADE_BY = "<!-- Written by docs/reference.py: change the code, then run it. -->\n"
Sections = dict[type[BaseModel], str]


def settings() -> str:
    """Every setting of a configuration: its type, its default, and its meaning."""
    lines = ["# Settings", "", MADE_BY]
    lines.append("All settings of a configuration. A preset gives values to required settings that are left out.")
    seen = set[type]()
    groups = [*_groups(Experiment, "", seen), *_groups(Allocation, "allocation", seen)]
    sections = {group: where for where, group in groups}
    shared = _shared(sections)
    common = {base: _common_title([sections[group] for group in groups]) for base, groups in shared.items()}
    titles = sections | common
    written = set[type[BaseModel]]()
    for group in sections:
        for each in (*(base for base in reversed(group.__mro__) if base in shared), group):
            if each not in written:
                written.add(each)
                lines += _section(each, titles)
    return "\n".join(lines) + "\n"


def _section(group: type[BaseModel], titles: Sections) -> list[str]:
    """The settings of a group, apart from those of a base class that has a section of its own."""
    introduction, meanings = descriptions(group)
    base = next((each for each in group.__mro__[1:] if each in titles), None)
    inherited = set[tuple[str, str, str | None]]()
    if base is not None:
        known = descriptions(base)[1]
        inherited = {(name, str(field), known.get(name)) for name, field in base.model_fields.items()}
    lines = ["", f"## {titles[group] or 'The configuration'}", "", *([introduction, ""] if introduction else [])]
    lines += [] if base is None else [f"Those of [{titles[base]}](#{_anchor(titles[base])}), and:", ""]
    for name, field in group.model_fields.items():
        if get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1:
            lines.append(f"- `{name}`: {_type(field.annotation, titles)}")
        elif (name, str(field), meanings.get(name)) not in inherited:
            kind = ", ".join(each for each in (_field_type(field, titles), _default(field)) if each)
            lines.append(f"- `{name}` ({kind}): {meanings.get(name, '')}")
    return lines


def _shared(sections: Sections) -> dict[type[BaseModel], list[type[BaseModel]]]:
    """The base classes whose settings several groups have, each with these groups; not those with a section."""
    groups: dict[type[BaseModel], list[type[BaseModel]]] = {}
    for group in sections:
        for base in group.__mro__[1:]:
            if issubclass(base, BaseModel) and base.model_fields and base not in sections:
                groups.setdefault(base, []).append(group)
    return {base: several for base, several in groups.items() if len(several) > 1}


def _common_title(places: Sequence[str]) -> str:
    """As `model (marian, mbart)`: places that differ in their kind have the rest once."""
    rests = {place.partition(" (")[0] for place in places}
    if len(rests) > 1:
        return ", ".join(places)
    return f"{rests.pop()} ({', '.join(place.partition(' (')[2].rstrip(')') for place in places)})"


def _groups(group: type[BaseModel], where: str, seen: set[type]) -> Iterator[tuple[str, type[BaseModel]]]:
    """A group of settings, then those that its settings are made of, each once."""
    if group in seen:
        return
    seen.add(group)
    yield where, group
    for name, field in group.model_fields.items():
        place = f"{where}.{name}" if where else name
        inner = groups_in(field.annotation)
        for model in inner:
            yield from _groups(model, f"{place} ({_kind(model)})" if len(inner) > 1 else place, seen)


def _kind(group: type[BaseModel]) -> str:
    """The value of the field that distinguishes a member of a union, or the name of the class."""
    fields = group.model_fields.values()
    values = [get_args(field.annotation) for field in fields if get_origin(field.annotation) is Literal]
    return next((str(only[0]) for only in values if len(only) == 1), group.__name__)


def _field_type(field: FieldInfo, sections: Sections) -> str:
    kind, null, _ = _type(field.annotation, sections).partition(" or null")
    return kind + _range(field.metadata, field.annotation) + (null if field.default is not None else "")


def _type(annotation: Any, sections: Sections) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is Annotated:
        inner, *marks = arguments
        metadata = [each for mark in marks for each in (mark.metadata if isinstance(mark, FieldInfo) else [mark])]
        named = [_names(mark.json_schema) for mark in metadata if isinstance(mark, WithJsonSchema)]
        return f"{named[0]} or text" if named else _type(inner, sections) + _range(metadata, inner)
    if origin is Literal:
        return "/".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        several = len(groups_in(annotation)) > 1
        members = [_link(each, sections, several) if each in sections else _type(each, sections) for each in arguments]
        return " or ".join(dict.fromkeys(members))
    if origin is tuple:
        items = [_type(each, sections) for each in arguments if each is not Ellipsis]
        return f"list of {items[0]}" if Ellipsis in arguments else f"[{', '.join(items)}]"
    if origin is dict:
        return f"{_type(arguments[0], sections)} → {_type(arguments[1], sections)}"
    if annotation in sections:
        return _link(annotation, sections, False)
    names = {str: "text", int: "integer", float: "number", bool: "`true`/`false`"}
    return names[annotation] if annotation in names else str(getattr(annotation, "__name__", annotation))


def _names(schema: Any) -> str:
    """The values that an editor completes, of a text that may also be another."""
    return "/".join(f"`{value}`" for choice in schema["anyOf"] for value in choice.get("enum", []))


def _link(group: type[BaseModel], sections: Sections, by_kind: bool) -> str:
    """To the section of a group; one of a union is called by its kind."""
    return f"[{f'`{_kind(group)}`' if by_kind else 'settings'}](#{_anchor(sections[group])})"


def _anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _range(metadata: Iterable[Any], annotation: Any) -> str:
    """The bounds of a number, or that a list may not be empty, in words behind the type."""
    bounds = {name: getattr(mark, name) for mark in metadata for name in _BOUNDS if hasattr(mark, name)}
    if "min_length" in bounds:
        return ", at least one" + (f" and at most {bounds['max_length']:,}" if "max_length" in bounds else "")
    if isinstance(bounds.get("lt"), int) and annotation is int:
        bounds["le"] = bounds.pop("lt") - 1
    if bounds.get("le") == MAX_COUNT:
        del bounds["le"]  # larger than any sensible value
    if bounds.keys() == {"ge", "le"}:
        return f" {bounds['ge']:g} to {bounds['le']:.10g}"
    return ",".join(f" {_BOUNDS[name]} {bound:.10g}" for name, bound in bounds.items())


_BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<", "min_length": "", "max_length": ""}


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default_factory is not None and field.default_factory_takes_validated_data:
        return "default from others"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "optional"
    return "" if isinstance(value, BaseModel) else f"default `{_written(value)}`"


def _written(value: Any) -> str:
    """A default as a configuration would have it."""
    if isinstance(value, BaseModel):
        return f"{{kind: {_kind(type(value))}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, str):
        return value if re.fullmatch(r"[\w.+-]+", value) else f"'{value}'"
    return str(value).lower() if isinstance(value, bool) else str(value)


def commands() -> str:
    """Every command with its arguments."""
    lines = ["# Commands", "", MADE_BY]
    lines.append(
        "Type `.venv/bin/subgraft`, or `. .venv/bin/activate` once and then `subgraft`. Exit codes: 0; 1 where"
    )
    lines.append("the disk, the network or a process failed, and the same command continues; 2 for a mistake in the")
    lines.append("arguments, with nothing done.")
    for name, command, purpose in _parsers(parser(), "subgraft", parser().description or ""):
        lines += ["", f"## {name}", "", purpose[:1].upper() + purpose[1:].rstrip(".") + "."]
        arguments = [_argument(action) for action in command._actions if action.help and action.dest != "help"]
        lines += ["", *arguments] if arguments else []
    return "\n".join(lines) + "\n"


def _argument(action: argparse.Action) -> str:
    """An item of the list. What must be given is not in brackets."""
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    shown = " ".join(value) if isinstance(value, tuple) else value
    if isinstance(action.choices, list | tuple) and not action.metavar:
        shown = "{" + ",".join(map(str, action.choices)) + "}"
    both = isinstance(action, argparse.BooleanOptionalAction)
    names = ", ".join(action.option_strings if both else action.option_strings[-1:])
    written = " ".join([name for name in (names, shown) if name])
    needed = action.required if action.option_strings else action.nargs not in ("*", "?")
    meaning = (action.help or "").replace("%%", "%")
    return f"- `{written if needed else f'[{written}]'}`: {meaning}"


def _parsers(
    above: argparse.ArgumentParser, name: str, purpose: str
) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """The command itself, then those below it."""
    groups = [action for action in above._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield name, above, purpose
    for group in groups:
        purposes = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for each, command in group.choices.items():
            yield from _parsers(command, f"{name} {each}", purposes.get(each, ""))


def guide_to_experiments() -> str:
    """The page with its tables of methods and tasks."""
    page = (ROOT / "docs" / "guide-experiments.md").read_text(encoding="utf-8")
    methods = [(f"`{method.name}`", method.start, method.source) for method in METHODS.values()]
    heads = [
        (f"`{name}`", f"`{CLASS_ENDINGS[task.head]}`", ", ".join(task.metrics)) for name, task in TASK_CLASSES.items()
    ]
    page = _with_rows(page, "name | start of a new token | source", methods)
    return _with_rows(page, "task | head of transformers | metrics", heads)


def guide_to_models() -> str:
    """The page with its table of the inputs and outputs of predictions."""
    page = (ROOT / "docs" / "guide-models.md").read_text(encoding="utf-8")
    specs = ((name, LABELLED_TASKS[name], task) for name, task in TASK_CLASSES.items())
    lines = [(f"`{name}`", spec.line, _json_of(task), spec.answer) for name, spec, task in specs]
    return _with_rows(page, "task | a line | JSON | prediction, and more in JSON", lines)


def _json_of(task: type[LabelledTask]) -> str:
    """The fields of an input in JSON."""
    form = task.form
    fields = ", ".join(f"`{name}`" for name in (*form.texts, form.several, *form.spans) if name)
    return f"{fields}{' as [start, end]' if form.spans else ''}{', or a list `words`' if form.words else ''}"


def _with_rows(page: str, header: str, rows: Iterable[Sequence[str]]) -> str:
    """A page with other rows in the table with this header."""
    before, line, after = re.split(rf"^( *\| {re.escape(header)} \|\n *\|[-|]+\|\n)", page, flags=re.MULTILINE)
    indent = line[: line.index("|")]
    table = "".join(f"{indent}| {' | '.join(row)} |\n" for row in rows)
    return before + line + table + after[after.index("\n\n") + 1 :]


PAGES = {
    "settings.md": settings,
    "commands.md": commands,
    "guide-experiments.md": guide_to_experiments,
    "guide-models.md": guide_to_models,
}


def main() -> None:
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
