"""Parse YAML 1.2 into plain data that remembers the line of each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from subgraft.base.limits import MAX_NUMBER
from subgraft.base.security.limits import CONFIGURATION_VALUES, MAX_NESTING

PathTo = tuple[str | int, ...]

_TEXT_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("str", "timestamp", "merge"))
_SCALAR_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float"))

_TOO_DEEP = f"values nested more than {MAX_NESTING} deep"


@dataclass(frozen=True)
class Mistake:
    """One mistake in a configuration: the path of the value, its place (file and line), and a message."""

    path: PathTo
    place: str
    message: str

    def __str__(self) -> str:
        dotted = ".".join(map(str, self.path))
        return ": ".join(part for part in (self.place, dotted, self.message) if part)


@dataclass
class Tree:
    """Dictionaries, lists and scalars; `places` has the file and line of each path."""

    data: Any = None
    places: dict[PathTo, str] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def place(self, path: PathTo) -> str:
        """The place of the value at `path`, or of the nearest value around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, "")

    def at(self, path: PathTo) -> Any:
        """The value at an existing path."""
        return reduce(lambda data, part: data[part], path, self.data)

    def put(self, path: PathTo, branch: Tree) -> None:
        """Replace the value at `path`; missing mappings on the way are created.

        Raises KeyError or IndexError if the path leads through a scalar or past the end of a list.
        """
        place = branch.places[()]
        if not path:
            self.data = branch.data
        else:
            self._set(path, branch.data, place)
        for old in [known for known in self.places if known[: len(path)] == path]:
            del self.places[old]
        self.places |= {path + inner: line for inner, line in branch.places.items()}
        self.mistakes += [Mistake(path + m.path, m.place, m.message) for m in branch.mistakes]

    def _set(self, path: PathTo, value: Any, place: str) -> None:
        if self.data is None:
            self.data = {}
        parent: Any = self.data
        for depth, part in enumerate(path):
            if not (isinstance(parent, list) if isinstance(part, int) else isinstance(parent, dict)):
                raise KeyError(part)
            if depth == len(path) - 1:
                parent[part] = value
            elif isinstance(part, str) and parent.get(part) is None:
                parent[part] = {}
                self.places[path[: depth + 1]] = place
            parent = parent[part]


def parse(text: str, origin: str, *, numbered: bool = True) -> Tree:
    """Read one YAML 1.2 document; syntax errors, duplicate keys and unknown tags are listed, not raised.

    The number of values, with aliases expanded, and their nesting are bounded by `limits`.

    Args:
        text: the document.
        origin: the name of the text in places.
        numbered: whether places have a line number.
    """
    reader = _Reader(origin, numbered)
    try:
        root = reader.yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reader.report((), reader.place(mark.line if mark else 0), f"not YAML: {_explain(error)}")
        return reader.tree
    except YAMLError as error:
        # The scanner's error for control characters has a position but no mark.
        before = text[: getattr(error, "position", 0) or 0]
        reader.report((), reader.place(before.count("\n")), "not YAML: a control character is not allowed")
        return reader.tree
    reader.tree.places[()] = reader.place(0)
    if root is not None:
        try:
            reader.tree.data = reader.convert(root, (), ())
        except _LimitError as error:
            return Tree(mistakes=[Mistake((), origin, f"{error}, with every alias (*) written out")])
    return reader.tree


class _LimitError(ValueError):
    """A document exceeds the limits."""


def _explain(error: MarkedYAMLError) -> str:
    if isinstance(error, MaxDepthExceededError):
        return _TOO_DEEP
    return " ".join(part for part in (error.context, error.problem) if part)


class _Reader:
    """Converts composed nodes to plain data, and records places and mistakes in `tree`."""

    def __init__(self, origin: str, numbered: bool) -> None:
        self.origin, self.numbered = origin, numbered
        self.yaml = YAML(typ="safe", pure=True)
        self.yaml.max_depth = MAX_NESTING
        self.values = 0
        self.tree = Tree()

    def place(self, line: int) -> str:
        return f"{self.origin}:{line + 1}" if self.numbered else self.origin

    def report(self, path: PathTo, place: str, message: str) -> None:
        self.tree.mistakes.append(Mistake(path, place, message))

    def convert(self, node: Node, path: PathTo, ancestors: Sequence[Node]) -> Any:
        self.values += 1
        if self.values > CONFIGURATION_VALUES:
            raise _LimitError(f"more than {CONFIGURATION_VALUES:,} values")
        if len(ancestors) > MAX_NESTING:
            raise _LimitError(_TOO_DEEP)
        self.tree.places.setdefault(path, self.place(node.start_mark.line))
        if any(node is ancestor for ancestor in ancestors):
            self.report(path, self.tree.places[path], "an alias to a value that contains it")
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path, (*ancestors, node))
        if isinstance(node, SequenceNode):
            return [self.convert(item, (*path, index), (*ancestors, node)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: PathTo, ancestors: Sequence[Node]) -> Mapping[str, Any]:
        first_lines: dict[str, int] = {}
        data: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line
            if not isinstance(key.value, str):
                self.report(path, self.place(line), "a key must be plain text")
                continue
            inner = (*path, key.value)
            if key.value in first_lines:
                first_place = f"line {first_lines[key.value] + 1}" if self.numbered else "the same override"
                self.report(inner, self.place(line), f"given twice (first on {first_place})")
                continue
            first_lines[key.value] = line
            self.tree.places[inner] = self.place(line)
            data[key.value] = self.convert(value, inner, ancestors)
        return data

    def _scalar(self, node: Node, path: PathTo) -> Any:
        # Dates stay text: no setting is a date, and a language code or name may look like one.
        if node.tag in _TEXT_TAGS:
            return node.value
        if node.tag in _SCALAR_TAGS:
            try:
                value = self.yaml.constructor.construct_object(node)
                if isinstance(value, int | float) and not abs(value) <= MAX_NUMBER:  # NaN too
                    raise ValueError
                return value
            except (YAMLError, LookupError, ValueError, OverflowError):  # the tag does not fit, as in !!bool maybe
                text = node.value if len(node.value) <= 40 else f"{node.value[:37]}..."
                self.report(path, self.tree.places[path], f"cannot be read: {text!r}")
                return None
        self.report(path, self.tree.places[path], f"the tag {node.tag} is not allowed")
        return None
