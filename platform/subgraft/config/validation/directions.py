"""Checks of an experiment with several directions. Each raises ValueError with the setting to change."""

from __future__ import annotations

from subgraft.config.comparison import Comparison
from subgraft.config.initialiser_registry import initialiser_info
from subgraft.config.systems import System
from subgraft.config.tasks import TASKS, tasks_with


def require_directions(experiment: Comparison) -> None:
    """Directions are distinct and have corpora, the first is trained on, and a model knows which language to write."""
    directions = experiment.directions
    if not directions:
        _require_none(experiment)
        return
    if not TASKS[experiment.task].two_languages:
        raise ValueError(
            f"directions are of `task: {' or '.join(tasks_with('two_languages'))}`, not of {experiment.task}"
        )
    names = [direction.name for direction in directions]
    if twice := [name for at, name in enumerate(names) if name in names[:at]]:
        raise ValueError(f"directions: {twice[0]} is named twice: combine its corpora by `together`")
    for direction in directions:
        if direction.source == direction.target:
            raise ValueError(f"directions: {direction.name} reads and writes one language")
        if direction.corpus not in experiment.corpora:
            known = ", ".join(experiment.corpora)
            raise ValueError(f"directions: corpus '{direction.corpus}' of {direction.name} is not among {known}")
    first = directions[0]
    if (experiment.languages, experiment.downstream.corpus) != (first.languages, first.corpus):
        raise ValueError(f"leave out languages and downstream.corpus: they are those of {first.name}, the first one")
    if not first.train:
        raise ValueError(f"directions: the first, {first.name}, is what the report is about: write `train: true`")
    _require_marked_languages(experiment)
    for system in experiment.systems:
        _require_directions_of(system, experiment)
    if experiment.direction_exponent is not None and all(
        len(experiment.trained_on(system)) == 1 for system in experiment.systems
    ):
        raise ValueError("direction_exponent: no system is finetuned on several directions: leave it out")


def _require_none(experiment: Comparison) -> None:
    if experiment.direction_exponent is not None:
        raise ValueError("direction_exponent draws directions, and there are none: give directions")
    if named := [system.name for system in experiment.systems if system.directions is not None]:
        raise ValueError(f"system {named[0]}: directions are some of the experiment's, which has none")


def _require_marked_languages(experiment: Comparison) -> None:
    """A model that is built here writes several languages only if it marks them."""
    targets = dict.fromkeys(direction.target for direction in experiment.directions)
    model = experiment.model
    if len(targets) > 1 and experiment.upstream.checkpoint is None and not model.needs_language_codes:
        raise ValueError(
            f"directions into {' and '.join(targets)}: a model of the family {model.family} has no language codes, so "
            "nothing says which language to write: take model.family mbart or m2m_100, or one target"
        )


def _require_directions_of(system: System, experiment: Comparison) -> None:
    where, names = f"system {system.name}", [direction.name for direction in experiment.directions]
    own = system.directions
    if own is not None and (unknown := [name for name in own if name not in names]):
        raise ValueError(f"{where}: directions has {unknown[0]}, which is not among {', '.join(names)}")
    if own is not None and (not own or len(set(own)) != len(own)):
        raise ValueError(f"{where}: directions must be distinct, and at least one")
    if [each.name for each in experiment.trained_on(system)] == names[:1]:
        return
    settings = {
        "text": system.text,
        "embedding_warmup": system.embedding_warmup,
        "source_encoder": system.source_encoder,
        f"initialiser: {system.initialiser}": initialiser_info(system.initialiser).learnt_by,
    }
    if unsupported := [name for name, is_set in settings.items() if is_set]:
        raise ValueError(
            f"{where}: {unsupported[0]} is for one direction, the first: write `directions: [{names[0]}]` in the system"
        )
