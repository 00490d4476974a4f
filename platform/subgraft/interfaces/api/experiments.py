"""Experiments, and the training of a generator, which runs as an experiment."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.files import require_file
from subgraft.config.settings_base import SideName
from subgraft.data.tasks.registry import TASKS, TaskName
from subgraft.embeddings.methods.registry import names_with
from subgraft.interfaces.api.arguments import (
    LanguagePair,
    located,
    one_of,
    pair_of,
    path_of,
    require_whole,
    shown,
    sides_of,
)
from subgraft.interfaces.api.progress import CallbackObserver, ProgressCallback
from subgraft.orchestration.store.outputs import new_directory, require_empty_directory

if TYPE_CHECKING:
    from subgraft.base.terminal import Terminal
    from subgraft.config.experiment import Experiment
    from subgraft.experiments.pipeline import Pipeline
    from subgraft.experiments.session import Finished, Session
    from subgraft.orchestration.store.events import Observer
    from subgraft.orchestration.store.step import Step


def run(
    config: Path | str,
    overrides: Mapping[str, object] | Sequence[str] = (),
    *,
    address: str | None = None,
    progress: bool | ProgressCallback = True,
) -> Finished:
    """Run an experiment, as `subgraft run` does: finished steps are not repeated, and everything is recorded.

    Args:
        config: A YAML file, as in configs/.
        overrides: Of its settings, {"finetune.epochs": 5} or ["finetune.epochs=5"].
        address: Of a Ray cluster; by default one on this machine.
        progress: Whether to print each step; or a function, as in `fit`.

    Raises:
        UserError: With all mistakes of the configuration.
        OperationalError: If the disk, the network or a process fails; called again, it continues.
    """
    from subgraft.base.terminal import Terminal

    observers = [CallbackObserver(progress)] if callable(progress) else []
    console = Terminal() if progress is True else Terminal(file=StringIO())
    return session_of(path_of("config", config), overrides).run(console, address, observers=observers)


def session_of(config: Path, overrides: Mapping[str, object] | Sequence[str] = ()) -> Session:
    """An experiment in the default store. Raises UserError with all mistakes of its configuration."""
    if isinstance(overrides, str) or not isinstance(overrides, Mapping | Sequence):
        hint = 'Give {"finetune.epochs": 5} or ["finetune.epochs=5"].'
        raise ArgumentError(f"expected a mapping or a list, found {shown(overrides)}", where="overrides", hint=hint)
    if isinstance(overrides, Mapping):
        overrides = [f"{name}={json.dumps(value)}" for name, value in overrides.items()]  # JSON is YAML
    experiment = load_experiment(config, overrides)
    from subgraft.experiments.session import Session  # slow; errors in the configuration are reported before

    return Session(experiment, config.absolute().parent)


def load_experiment(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """A configuration file with its overrides. Raises UserError with everything that is wrong."""
    from subgraft.config.experiment import Experiment
    from subgraft.config.loading import load

    return load(path, Experiment, overrides)


def report_of(run: str, overrides: Sequence[str] = ()) -> Path:
    """The directory of a finished report. run: a recorded run's name or id, or an experiment's YAML file.

    Raises UserError where there is none.
    """
    if overrides or Path(run).suffix in (".yaml", ".yml"):
        return session_of(Path(run), overrides).report_directory()
    from subgraft.orchestration.store.home import default_home, require_format
    from subgraft.orchestration.tracking.server import recording_server

    require_format(default_home())
    with recording_server() as server:
        fingerprint = server.find(run).tags.get("fingerprint.report", "")
    directory = default_home() / "store" / "report" / fingerprint
    if (directory / "report.html").is_file():
        return directory
    raise UserError(
        "this run has no finished report", where=run, hint="Give the experiment's YAML file, or run it again."
    )


def stopped_after(config: Path, overrides: Sequence[str], stop_after: str) -> list[str]:
    """The overrides with one more, SECTION.stop_after=UPDATES.

    Args:
        config: The experiment's YAML file.
        overrides: Of its settings.
        stop_after: SECTION=UPDATES; or SECTION, the settings of a training, which then ends at its last checkpoint.

    Raises:
        UserError: For another section, and for a section without a checkpoint of an unfinished training.
    """
    from subgraft.orchestration.execution.early_stopping import last_checkpoint_update
    from subgraft.orchestration.store.step import in_order

    section, _, updates = stop_after.partition("=")
    session = session_of(config, [*overrides, f"{section}.stop_after={updates or 1}"])
    if not updates:
        update = last_checkpoint_update(session.store, in_order([session.pipeline.report]))
        if update is None:
            hint = f"Give a number of updates, as in {section}=1000."
            raise UserError("no unfinished training of it has a checkpoint", where=section, hint=hint)
        updates = str(update)
    return [*overrides, f"{section}.stop_after={updates}"]


NAME = "generator"
TextObjective = Literal["denoising", "masked", "causal"]
# A configuration needs a task; here it is only used to allow the objective of the pretraining.
_TASKS: Mapping[str, TaskName] = {facts.finetuned_on["kind"]: name for name, facts in reversed(list(TASKS.items()))}


def train_generator(
    model: Path | str,
    *,
    languages: LanguagePair,
    out: Path | str,
    pairs: tuple[Path | str, Path | str] | None = None,
    text: Path | str | None = None,
    objective: TextObjective = "causal",
    kind: str = "network",
    sides: Sequence[SideName] = ("decoder",),
    steps: int | None = None,
    preset: Literal["small", "gpu", "paper"] = "small",
) -> Path:
    """Train a generator on Ray, as `subgraft generator train` does; stopped and called again, it continues.

    Args:
        model: The model: a directory, a hub id, or models:/NAME@ALIAS.
        languages: Of the pairs; of one text the same code twice.
        out: The directory to write, which `transfer` takes; absent or empty.
        pairs: For a model that translates, two files of text as in its pretraining.
        text: For any other model, one file.
        objective: The pretraining objective of `text`.
        kind: The kind of generator.
        sides: The sides whose embeddings it generates.
        steps: Updates of its training; by default the preset's.
        preset: The sizes of everything.

    Returns:
        `out`.

    Raises:
        UserError: If a file is missing, or `out` is not empty.
    """
    from subgraft.base.terminal import Terminal

    out = path_of("out", out)
    sides = sides_of(sides)
    require_whole("steps", steps, 1, optional=True)
    one_of("preset", preset, ("small", "gpu", "paper"))
    one_of("objective", objective, get_args(TextObjective))
    one_of("kind", kind, names_with("trained"))
    require_empty_directory(out)
    files, checkpoint = _files(pairs, text), located(model)
    objective_kind: TextObjective | Literal["translation"] = "translation" if pairs else objective
    experiment = experiment_of(
        {
            "name": NAME,
            "preset": preset,
            "task": _TASKS.get(objective_kind, "text-to-text"),
            "languages": pair_of(languages).model_dump(),
            "sides": list(sides),
            "corpora": {"upstream": {"files": {"train": files}}},
            "upstream": {
                "corpus": "upstream",
                "checkpoint": str(Path(checkpoint).absolute() if Path(checkpoint).is_dir() else checkpoint),
                "objectives": [{"kind": objective_kind}],
            },
            "downstream": {"corpus": "upstream"},
            "systems": [{"name": NAME, "initialiser": kind} | ({"generator_steps": steps} if steps else {})],
            **lengths_for(str(checkpoint)),
        },
        NAME,
    )
    store_step(experiment, lambda pipeline: pipeline.generator_of(pipeline.experiment.systems[0]), out, Terminal())
    return out


def lengths_for(model: str) -> dict[str, dict[str, int]]:
    """Settings that shorten all sequences to what a model accepts, as nobody who trains a generator can set them."""
    from subgraft.experiments.fit.configuration import USUAL_LENGTH
    from subgraft.modeling.families import family_of
    from subgraft.modeling.hub import read_config, require_model

    config = read_config(require_model(model))
    limit = family_of(config).position_limit(config)
    trainings = ("finetune", "generator_training", "network_training")
    return {} if limit is None or limit >= USUAL_LENGTH else {name: {"max_length": limit} for name in trainings}


def _files(pairs: tuple[Path | str, Path | str] | None, text: Path | str | None) -> list[str]:
    """Raises UserError where a file is missing, and where there are pairs and text, or neither."""
    if (pairs is None) == (text is None):
        raise ArgumentError("a generator is trained on pairs of files or on one text", where="pairs")
    files = [Path(file) for file in pairs or (text,) if file is not None]
    return [str(require_file(path).absolute()) for path in files]


def experiment_of(settings: dict[str, Any], name: str) -> Experiment:
    """An experiment by its settings. Raises UserError that names NAME.yaml, with all mistakes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.yaml"
        file.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        return load_experiment(file)


def store_step(
    experiment: Experiment,
    step_of: Callable[[Pipeline], Step | None],
    out: Path,
    console: Terminal,
    observers: Sequence[Observer] = (),
) -> None:
    """Run one step of an experiment in the default store, after those that it needs, and copy its result to `out`."""
    from subgraft.experiments.pipeline import Pipeline
    from subgraft.orchestration.execution.progress import display_for
    from subgraft.orchestration.execution.runner import run
    from subgraft.orchestration.store.home import default_home
    from subgraft.orchestration.store.store import Store

    step = step_of(Pipeline(experiment, Path.cwd()))
    assert step is not None
    display = display_for(console)
    store = Store(default_home().absolute(), display.say)
    try:
        run(store, [step], experiment.runtime, [display, *observers])
    finally:
        display.close()
    with new_directory(out) as staged:
        shutil.copytree(store.path(step), staged, dirs_exist_ok=True)
