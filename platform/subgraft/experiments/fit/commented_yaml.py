"""Settings with comments, as YAML that people read and change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Section: TypeAlias = Mapping[str, Any]
# Characters of a section that is written in one line.
MAX_LINE = 60


@dataclass(frozen=True)
class Commented:
    """A value, and the comment at the end of its line."""

    value: Any
    comment: str


def plain(value: Any) -> Any:
    """The value without comments."""
    if isinstance(value, Commented):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def to_yaml(settings: Section) -> str:
    """The settings as YAML: long sections have a line for each of their values, and lists of groups one for each."""
    text, was_long = "", False
    for name, value in settings.items():
        lines = list(_lines(name, value))
        text += "\n" * (was_long or len(lines) > 1) + "".join(f"{line}\n" for line in lines)
        was_long = len(lines) > 1
    return text


def _lines(name: str, value: Any) -> Iterator[str]:
    content = value.value if isinstance(value, Commented) else value
    if isinstance(content, Mapping) and not _is_short(content):
        yield _with_comment(f"{name}:", value)
        for key, each in content.items():
            yield _with_comment(f"  {key}: {_in_a_line(each)}", each)
    elif isinstance(content, list | tuple) and any(isinstance(each, Mapping) for each in map(plain, content)):
        yield _with_comment(f"{name}:", value)
        for each in content:
            yield _with_comment(f"  - {_in_a_line(each)}", each)
    else:
        yield _with_comment(f"{name}: {_in_a_line(value)}", value)


def _is_short(section: Section) -> bool:
    commented = any(isinstance(value, Commented) for value in section.values())
    return not commented and len(_in_a_line(section)) <= MAX_LINE


def _with_comment(line: str, value: Any) -> str:
    return f"{line}   # {value.comment}" if isinstance(value, Commented) else line


def _in_a_line(value: Any) -> str:
    import yaml

    text: str = yaml.safe_dump(
        plain(value), default_flow_style=True, width=1_000_000, sort_keys=False, allow_unicode=True
    )
    return text.removesuffix("\n").removesuffix("\n...")
