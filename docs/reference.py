"""Writes the pages of docs/ that follow from the code: tree.md, settings.md and commands.md.

    .venv/bin/python docs/reference.py

A test fails where they are not current.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from subgraft.cli import parser
from subgraft.config.experiment import Experiment

ROOT = Path(__file__).resolve().parent.parent
MADE_BY = "<!-- Written by docs/reference.py: change the code, then run it. -->\n"
# What has no first line that could say it.
SAID = {
    "README.md": "What Subgraft is, for whom, and the first commands.",
    "CONTRIBUTING.md": "How to work on Subgraft, and the way of a sentence and of an embedding through the rooms.",
    "CHANGELOG.md": "What changed, and what that means for stores and configurations of before.",
    "pyproject.toml": "Dependencies, and the settings of ruff, mypy and pytest.",
    "report.html.j2": "The report's page.",
    "constraints.txt": "The versions that were tested together; `make setup` installs them.",
}


def tree() -> str:
    """Every file, with the first sentence it says of itself."""
    lines = ["# Every file", "", MADE_BY, "A folder's line is its `__init__.py`'s. Tests mirror the package, so they "]
    lines[-1] += "are not named here, only what they share."
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=True).stdout
    paths = [Path(path) for path in listed.splitlines() if (ROOT / path).exists() and _is_shown(Path(path))]
    folder: Path | None = None
    for path in sorted(paths, key=lambda path: (path.parent.parts, path.name)):
        if path.parent != folder:
            folder = path.parent
            told = _says(folder / "__init__.py") if (ROOT / folder / "__init__.py").exists() else ""
            lines += ["", f"## {folder.as_posix()}/" if folder.parts else "## The root", ""]
            lines += [told, ""] if told else []
        lines.append(f"- `{path.name}`: {_says(path)}")
    return "\n".join(lines) + "\n"


def _is_shown(path: Path) -> bool:
    if path.parts[0].startswith(".") or (path.suffix in (".png", "") and path.name != "Makefile"):
        return path.name == "Dockerfile"
    return path.name not in ("__init__.py", "py.typed") and not path.name.startswith("test_")


def _says(path: Path) -> str:
    """The first sentence of a docstring, a first comment, or a title."""
    if path.name in SAID:
        return SAID[path.name]
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.suffix == ".py":
        told = ast.get_docstring(ast.parse(text)) or ""
    elif path.suffix == ".md":
        told = text.lstrip().splitlines()[0].lstrip("# ")
    else:
        comment = re.search(r"(?:^(?:#(?!!)|\{#).*\n?)+", text, flags=re.MULTILINE)
        told = re.sub(r"^(#|\{#)\s?|#\}$", "", comment[0], flags=re.MULTILINE) if comment else ""
    told = " ".join(told.split("\n\n")[0].split())
    sentence = re.match(r".*?(?<!et al)(?<!e\.g)[.](?=\s|$)", told)
    return (sentence[0].rstrip(":.") if sentence else told) + "."


def settings() -> str:
    """Every setting of a configuration: its type, what it is without being given, and what it means."""
    lines = ["# Settings", "", MADE_BY]
    lines.append("What a configuration may say. A setting without a default must be given, unless the preset gives it.")
    for where, group in _groups(Experiment, "", set()):
        introduction, meanings = _docstring(group)
        lines += ["", f"## {where or 'The configuration'}", "", *([introduction, ""] if introduction else [])]
        lines += ["| setting | type | default | meaning |", "|---|---|---|---|"]
        for name, field in _fields(group):
            told = meanings.get(name, "").replace("|", "\\|")
            lines.append(f"| `{name}` | {_type(field.annotation)} | {_default(field)} | {told} |")
    return "\n".join(lines) + "\n"


def _fields(group: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    return list(group.model_fields.items())


def _groups(group: type[BaseModel], where: str, seen: set[type]) -> Iterator[tuple[str, type[BaseModel]]]:
    """A group of settings, then those that its settings are made of, each once."""
    if group in seen:
        return
    seen.add(group)
    yield where, group
    for name, field in _fields(group):
        for inner in _models(field.annotation):
            several = len(_models(field.annotation)) > 1
            place = f"{where}.{name}" if where else name
            yield from _groups(inner, f"{place} ({_kind(inner)})" if several else place, seen)


def _kind(group: type[BaseModel]) -> str:
    """What tells one of several groups from the others."""
    told = [get_args(field.annotation)[0] for _, field in _fields(group) if get_origin(field.annotation) is Literal]
    return str(told[0]) if told else group.__name__


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    found: list[type[BaseModel]] = []
    for inner in get_args(annotation):
        found += [model for model in _models(inner) if model not in found]
    return found


def _docstring(group: type[BaseModel]) -> tuple[str, dict[str, str]]:
    """What a docstring says of the group, and of each setting: `name: …` or `name, other: …`, as ours are written."""
    text = re.sub(r"\s*\n\s*", "\n", (group.__dict__.get("__doc__") or "").strip())
    names = "|".join(group.model_fields)
    parts = re.split(rf"(?:^|(?<=[.\n])\s+|\n)((?:(?:{names}), )*(?:{names})): ", text)
    meanings: dict[str, str] = {}
    for told, meaning in zip(parts[1::2], parts[2::2], strict=True):
        meanings |= dict.fromkeys(told.split(", "), " ".join(meaning.split()))
    return " ".join(parts[0].split()), meanings


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is type(None):
        return "null"
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(inner) for inner in arguments))
    if origin is tuple:
        inner = [_type(each) for each in arguments if each is not Ellipsis]
        return f"list of {inner[0]}" if Ellipsis in arguments else f"[{', '.join(inner)}]"
    if origin is dict:
        return f"{_type(arguments[0])} → {_type(arguments[1])}"
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    if annotation in names:
        return names[annotation]
    return "settings" if _models(annotation) else str(getattr(annotation, "__name__", annotation))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "must be given"
    if field.default_factory is not None and field.default_factory_takes_validated_data:
        return "depends on the others"
    value = field.get_default(call_default_factory=True)
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "its defaults"
    return f"`{str(value).lower() if isinstance(value, bool) else list(value) if isinstance(value, tuple) else value}`"


def commands() -> str:
    """Every command with its arguments."""
    lines = ["# Commands", "", MADE_BY]
    lines.append(
        "Type `.venv/bin/subgraft`, or `. .venv/bin/activate` once and then `subgraft`. Exit codes: 0; 1 where"
    )
    lines.append(
        "the disk, the network or a process failed, and the same command carries on; 2 for a mistake in what was"
    )
    lines.append("given, of which nothing was done.")
    for name, command, purpose in _parsers(parser(), "subgraft", parser().description or ""):
        lines += ["", f"## {name}", "", purpose[:1].upper() + purpose[1:].rstrip(".") + "."]
        arguments = [_argument(action) for action in command._actions if action.help and action.dest != "help"]
        lines += ["", "| argument | meaning |", "|---|---|", *arguments] if arguments else []
    return "\n".join(lines) + "\n"


def _argument(action: argparse.Action) -> str:
    """A line of the table. What must be given is not in brackets."""
    value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
    shown = " ".join(value) if isinstance(value, tuple) else value
    if isinstance(action.choices, list | tuple) and not action.metavar:
        shown = "{" + ",".join(map(str, action.choices)) + "}"
    written = " ".join([*action.option_strings[-1:], *([shown.replace("|", "\\|")] if shown else [])])
    needed = action.required if action.option_strings else action.nargs not in ("*", "?")
    told = (action.help or "").replace("|", "\\|").replace("%%", "%")
    return f"| `{written if needed else f'[{written}]'}` | {told} |"


def _parsers(
    above: argparse.ArgumentParser, name: str, purpose: str
) -> Iterator[tuple[str, argparse.ArgumentParser, str]]:
    """The command itself, then those below it."""
    groups = [action for action in above._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield name, above, purpose
    for group in groups:
        told = {choice.dest: choice.help or "" for choice in group._choices_actions}
        for each, command in group.choices.items():
            yield from _parsers(command, f"{name} {each}", told.get(each, ""))


PAGES = {"tree.md": tree, "settings.md": settings, "commands.md": commands}


def main() -> None:
    for name, page in PAGES.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
