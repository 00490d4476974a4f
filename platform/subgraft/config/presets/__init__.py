"""Sizes that belong together: `paper`, `gpu` and `small`; and what a task needs otherwise than translation does.

What a configuration says itself goes before both.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

from subgraft.config.models import DEFAULT_FAMILY, SETTINGS_OF_FAMILY
from subgraft.config.yamltree import parse

PRESETS = ("small", "gpu", "paper")

Groups: TypeAlias = Mapping[str, Mapping[str, Any]]


@cache
def preset(name: str) -> Groups:
    """The settings of a preset, by group: the file of its name beside this module."""
    groups: Groups = _read(name)
    return groups


@cache
def _tasks() -> Mapping[str, Groups]:
    tasks: Mapping[str, Groups] = _read("tasks")
    return tasks


def _read(name: str) -> Any:
    text = files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    return parse(text, name).data


# Groups that systems with some initialiser alone need. Elsewhere they are in no experiment, and in no fingerprint.
_ONLY_FOR: Mapping[str, str] = {
    "token_distillation_training": "token-distillation",
    "likelihood_matching_training": "likelihood-matching",
}


def with_preset(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with the groups of its preset and its task filled in beneath it.

    An unknown preset or task is left for validation to name.
    """
    name, task = given.get("preset", "small"), given.get("task")
    groups = {**(preset(name) if name in PRESETS else {}), **(_tasks().get(task, {}) if isinstance(task, str) else {})}
    filled = dict(given)
    for group, defaults in groups.items():
        if group in given or group not in _ONLY_FOR or _has_system(given, _ONLY_FOR[group]):
            own = given.get(group, {})
            beneath = _of_family(defaults, own) if group == "model" else defaults
            filled[group] = {**beneath, **own} if isinstance(own, Mapping) else own
    return filled


def _of_family(defaults: Mapping[str, Any], own: object) -> dict[str, Any]:
    """Of a preset's model, what the configuration's family has settings for; a stack that is alone has `layers`."""
    family = own.get("family", DEFAULT_FAMILY) if isinstance(own, Mapping) else DEFAULT_FAMILY
    settings = SETTINGS_OF_FAMILY.get(family) if isinstance(family, str) else None
    known = () if settings is None else settings.model_fields
    return {"family": family} | {name: value for name, value in defaults.items() if name in known}


def _has_system(given: Mapping[str, Any], initialiser: str) -> bool:
    systems = given.get("systems", ())
    systems = systems if isinstance(systems, list | tuple) else ()
    return any(isinstance(system, Mapping) and system.get("initialiser") == initialiser for system in systems)
