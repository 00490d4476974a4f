"""Settings that were renamed, moved or removed, each with the line to change.

To add one, add a line to a table. A name is only reported where the settings no longer have such a field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from subgraft.config.yaml_tree import Mistake, PathTo, Tree

# Settings of versions with a single objective, and the kind of objective of each.
ONE_OBJECTIVE: Mapping[str, str] = {"objective": "translation", "noise": "denoising", "masking": "masked"}

# Settings of versions in which denoising had two noises.
_OF_TWO_NOISES = ("mask_share", "permute_sentences")


def _objectives_line(upstream: Mapping[str, Any]) -> str:
    """The line `objectives: […]` for the settings of one objective."""
    present = [name for name in ONE_OBJECTIVE if name in upstream]
    kind = upstream.get("objective") or ONE_OBJECTIVE[present[0]]
    settings: dict[str, Any] = {}
    for name in present:
        if ONE_OBJECTIVE[name] == kind and isinstance(upstream[name], dict):
            settings = dict(upstream[name])
    if not settings.keys().isdisjoint(_OF_TWO_NOISES):
        noises = _noises_line(settings).removeprefix("noises: ")
        settings = {"noises": noises} | {name: value for name, value in settings.items() if name not in _OF_TWO_NOISES}
    fields = ", ".join(f"{name}: {_yaml(value)}" for name, value in {"kind": kind, **settings}.items())
    return f"objectives: [{{{fields}}}]"


def _noises_line(denoising: Mapping[str, Any]) -> str:
    """The line `noises: {…}` for the settings of denoising when it had two noises."""
    noises = {"infilling": denoising.get("mask_share", 0.35)}
    if denoising.get("permute_sentences", True):
        noises["permutation"] = 1
    return f"noises: {{{', '.join(f'{name}: {_yaml(value)}' for name, value in noises.items())}}}"


def _yaml(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


class Renamed(NamedTuple):
    """A setting that was renamed or moved.

    Attributes:
        before: Its dotted path, in which `*` stands for any one part and `**` for any number of parts.
        now: The line that replaces it, in which {value} stands for its value; or a function that creates this line from
            the group of the setting.
    """

    before: str
    now: str | Callable[[Mapping[str, Any]], str]


class Removed(NamedTuple):
    """A setting that has become a constant.

    Attributes:
        before: Its dotted path, as in `Renamed`.
        value: The constant.
    """

    before: str
    value: str


RENAMED = (
    Renamed("rows", "systems:"),
    Renamed("search.row", "system: {value}"),
    Renamed("search.rows", "systems: {value}"),
    Renamed("**.table_learning_rate", "embedding_learning_rate: {value}"),
    Renamed("**.attached", "tie_to_sources: {value}"),
    Renamed("**.tables_first", "embeddings_only_fraction: {value}"),
    Renamed("**.rows_first", "embedding_warmup: {value}"),
    Renamed("rows_first_training", "embedding_warmup_training:"),
    Renamed("**.keep_seen", "copy_shared_tokens: {value}"),
    Renamed("finetune.pairs", "max_train_examples: {value}"),
    Renamed("**.rare_tokens.below", "min_count: {value}"),
    Renamed("**.rare_tokens.pull", "l2_to_init: {value}"),
    Renamed("**.pairs_drawn", "resample_subset: {value}"),
    Renamed("**.text_share", "monolingual_fraction: {value}"),
    Renamed("upstream.given_vocabulary", "vocabulary_path: {value}"),
    Renamed("baselines.given", "vocabularies: {value}"),
    Renamed("runtime.hang_seconds", "heartbeat_timeout: {value}"),
    *(Renamed(f"upstream.objectives.*.{name}", _noises_line) for name in _OF_TWO_NOISES),
    *(Renamed(f"upstream.{name}", _objectives_line) for name in ONE_OBJECTIVE),
)


REMOVED = (
    Removed("network.taken_out", "[0.3, 0.9]"),
    Removed("network.unknown_commonness", "0.1"),
    Removed("static_embeddings.negative_samples", "5"),
    Removed("static_embeddings.learning_rate", "0.025"),
    Removed("static_embeddings.min_ngram", "3"),
    Removed("static_embeddings.max_ngram", "6"),
)


def find_deprecated(tree: Tree, is_known: Callable[[PathTo], bool]) -> Iterator[Mistake]:
    """A mistake for each key of an earlier version, in the order of the text.

    is_known: whether the settings have a field at a path.
    """
    entries: tuple[Renamed | Removed, ...] = (*RENAMED, *REMOVED)
    for path, place in tree.places.items():
        for entry in entries:
            if path and _matches(path, entry.before.split(".")) and not is_known(path):
                if isinstance(entry, Renamed):
                    change = f"write `{_new_line(tree, path, entry)}`"
                else:
                    change = f"remove it, its value is always {entry.value}"
                yield Mistake(path, place, f"no longer a setting; {change}")


def _new_line(tree: Tree, path: PathTo, entry: Renamed) -> str:
    if not isinstance(entry.now, str):
        return entry.now(tree.at(path[:-1]))
    return entry.now.replace("{value}", json.dumps(tree.at(path), ensure_ascii=False))


def _matches(path: PathTo, pattern: Sequence[Any]) -> bool:
    if not pattern:
        return not path
    first, *rest = pattern
    if first == "**":
        return any(_matches(path[skipped:], rest) for skipped in range(len(path) + 1))
    return bool(path) and first in ("*", path[0]) and _matches(path[1:], rest)
