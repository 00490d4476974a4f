"""Where a system stands among the others of a sweep, by its settings alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from subgraft.config.settings_base import VocabularyMode
from subgraft.config.initialiser_registry import facts_of
from subgraft.pipeline.recipes.evaluation import Design

if TYPE_CHECKING:
    from subgraft.config.experiment import Experiment
    from subgraft.config.systems import System

_MODES: Mapping[VocabularyMode | None, str] = {"extend": "extended", "trim": "trimmed"}


def design(system: System, experiment: Experiment) -> Design:
    """The design of a system; `avg` is a generator of no steps, as all generators begin as it."""
    parts = [system.initialiser or f"{system.vocabulary} vocabulary"]
    parts += [f"from {system.starts_from}"] if system.starts_from else []
    parts += [f"λ {system.kd_weight:g}"] if system.kd_weight else []
    variant: list[str] = [system.pretraining] if system.pretraining != "plain" else []
    mode = experiment.vocabulary_mode(system)
    variant += [f"vocabulary {_MODES[mode]}"] if mode in _MODES else []
    variant += [] if system.keep_seen else ["no seen rows kept"]
    variant += [f"tables first {system.tables_first:g}"] if system.tables_first else []
    variant += ["attached"] if system.attached else []
    variant += [f"{system.train} trained"] if system.train else []
    variant += [f"rows first, {system.rows_first} text"] if system.rows_first else []
    variant += [f"{system.text} text"] if system.text else []
    variant += _rates(system) + _rare(system)
    steps = None
    if system.generator is not None and system.starts_from is None:
        steps = experiment.generator_steps(system)
    elif facts_of(system.initialiser).generator and not experiment.generator.literal_equation:
        steps = 0
    return Design(
        family=", ".join([*parts, *variant]),
        variant=", ".join(variant),
        generator_steps=steps,
        select=experiment.finetune.select,
    )


def _rare(system: System) -> list[str]:
    """A system's own settings for rare tokens, in words."""
    count, rare = system.vocabulary_min_count, system.rare_tokens
    told = [f"pieces used {count} times"] if count else []
    if rare is not None:
        told.append(f"tokens below {rare.below} at ×{rare.learning_rate_factor:g}, pulled at {rare.pull:g}")
    return told


def _rates(system: System) -> list[str]:
    """The learning rates that a system has of its own."""
    whole, tables = system.learning_rate, system.embedding_learning_rate
    told = [f"learning rate {whole:g}"] if whole is not None else []
    if tables is not None:
        told.append(f"tables at {tables:g}" if tables else "tables frozen")
    return told
