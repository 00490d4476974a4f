"""Presets of sizes and trainings: `paper`, `gpu` and `small`; and the defaults of tasks other than translation.

The configuration overrides both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.resources import files
from itertools import chain
from typing import Any, TypeAlias

from subgraft.config.models import DEFAULT_FAMILY, SETTINGS_OF_FAMILY
from subgraft.config.yaml_tree import parse
from subgraft.data.tasks.registry import LABELLED_TASKS, TASKS
from subgraft.embeddings.methods.registry import METHODS
from subgraft.training.objectives.registry import CONTINUING_KINDS

PRESETS = ("small", "gpu", "paper")

Groups: TypeAlias = Mapping[str, Mapping[str, Any]]


@cache
def preset(name: str) -> Groups:
    """The settings of a preset, by group: the file of its name in this folder, and the trainings of methods."""
    groups: Groups = parse(files(__package__).joinpath(f"{name}.yaml").read_text(encoding="utf-8"), name).data
    trainings = [method.training for method in METHODS.values() if method.training]
    return {**groups, **{training.name: training.preset(name) for training in trainings}}


def _has_initialiser(name: str, system: Mapping[str, Any]) -> bool:
    """Whether a system, which is not validated yet, has this initialiser."""
    return system.get("initialiser") == name


# Groups that only some systems need: the trainings of learnt embeddings, of embedding warmup and of several tasks.
_ONLY_FOR: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    **{
        method.training.name: partial(_has_initialiser, name)
        for name, method in METHODS.items()
        if method.learning and method.training
    },
    "embedding_warmup_training": lambda system: bool(system.get("embedding_warmup")),
    "multitask_training": lambda system: bool(system.get("multitask")),
}


def with_preset(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`settings`, completed by the defaults of its preset and its task.

    Validation reports an unknown preset or task; with an unknown preset, settings that it would have are not missing.
    """
    name, task = settings.get("preset", "small"), settings.get("task")
    sources = [preset(name if name in PRESETS else "small"), *_of_task(settings)]
    groups = {
        group: {key: value for source in sources for key, value in source.get(group, {}).items()}
        for group in chain.from_iterable(sources)
    }
    filled = dict(settings)
    for group, defaults in groups.items():
        if group in settings or group not in _ONLY_FOR or _has_system(settings, _ONLY_FOR[group]):
            own = settings.get(group, {})
            base = _for_family(defaults, own) if group == "model" else defaults
            filled[group] = {**base, **own} if isinstance(own, Mapping) else own
    return filled | _sides_of_labels(filled) if isinstance(task, str) and task in LABELLED_TASKS else filled


def _of_task(settings: Mapping[str, Any]) -> list[Groups]:
    """The defaults of the task, and further ones if the model is a checkpoint."""
    task, upstream = settings.get("task"), settings.get("upstream")
    facts = TASKS.get(task) if isinstance(task, str) else None
    if facts is None:
        return []
    has_checkpoint = isinstance(upstream, Mapping) and upstream.get("checkpoint") is not None
    return [facts.defaults, facts.checkpoint_defaults] if has_checkpoint else [facts.defaults]


def _sides_of_labels(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The sides of a model with a head, unless the configuration sets them.

    Such a model reads all texts in one vocabulary, which both sides share. For a decoder-only model it is the
    decoder's.
    """
    if "sides" in settings:
        return {}
    objectives = _list_at(settings, "upstream", "objectives")
    kinds = [each.get("kind") for each in objectives if isinstance(each, Mapping)]
    if kinds and CONTINUING_KINDS.issuperset(kinds):
        return {"sides": ("decoder",)}
    downstream = settings.get("downstream")
    shared = {"downstream": {"shared": True, **downstream}} if isinstance(downstream, Mapping) else {}
    return {"sides": ("encoder", "decoder"), **shared}


def _for_family(defaults: Mapping[str, Any], own: object) -> dict[str, Any]:
    """The settings of a preset's model that the configuration's family has; a single stack has `layers`."""
    family = own.get("family", DEFAULT_FAMILY) if isinstance(own, Mapping) else DEFAULT_FAMILY
    settings = SETTINGS_OF_FAMILY.get(family) if isinstance(family, str) else None
    known = () if settings is None else settings.model_fields
    return {"family": family} | {name: value for name, value in defaults.items() if name in known}


def _has_system(settings: Mapping[str, Any], needs: Callable[[Mapping[str, Any]], bool]) -> bool:
    searched_systems = ({"initialiser": name} for name in _list_at(settings, "search", "space", "initialiser"))
    systems = [*_list_at(settings, "systems"), *searched_systems]
    return any(isinstance(system, Mapping) and needs(system) for system in systems)


def _list_at(settings: Mapping[str, Any], *path: str) -> Sequence[Any]:
    """The list at a path of unvalidated settings; empty if there is none."""
    value: Any = settings
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, list | tuple) else ()
