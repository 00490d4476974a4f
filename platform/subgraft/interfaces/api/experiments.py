"""Experiments, and the training of a generator, which runs as an experiment."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.files import require_path
from subgraft.config.initialiser_registry import names_with
from subgraft.config.settings_base import SideName
from subgraft.config.tasks import TASKS, TaskName
from subgraft.interfaces.api.arguments import LanguagePair, located, one_of, pair_of, path_of, shown, sides_of, whole
from subgraft.orchestration.store.outputs import new_directory, require_empty_directory

if TYPE_CHECKING:
    from subgraft.config.experiment import Experiment
    from subgraft.experiments.session import Finished, Session


def run(
    config: Path | str, overrides: Mapping[str, object] | Sequence[str] = (), *, address: str | None = None
) -> Finished:
    """Run an experiment, as `subgraft run` does: what is done already is not done again, and all of it is recorded.

    config: a YAML file, as in configs/.  overrides: of its settings, {"finetune.epochs": 5} or ["finetune.epochs=5"].
    address: of a Ray cluster; by default one on this machine.

    Raises UserError with all mistakes of the configuration, OperationalError where the disk, the network or a process
    fails: called again, it carries on.
    """
    from subgraft.base.terminal import Terminal

    return session_of(path_of("config", config), overrides).run(Terminal(), address)


def session_of(config: Path, overrides: Mapping[str, object] | Sequence[str] = ()) -> Session:
    """An experiment in the store of this place. Raises UserError with everything that is wrong."""
    from subgraft.config.experiment import Experiment
    from subgraft.config.loading import load

    if isinstance(overrides, str) or not isinstance(overrides, Mapping | Sequence):
        hint = 'Give {"finetune.epochs": 5} or ["finetune.epochs=5"].'
        raise ArgumentError(f"expected a mapping or a list, found {shown(overrides)}", where="overrides", hint=hint)
    if isinstance(overrides, Mapping):
        overrides = [f"{name}={json.dumps(value)}" for name, value in overrides.items()]  # JSON is YAML
    experiment = load(config, Experiment, overrides)
    from subgraft.experiments.session import Session  # after the configuration's mistakes, which need none of it

    return Session(experiment, config.absolute().parent)


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


def stopped_after(config: Path, overrides: Sequence[str], asked: str) -> list[str]:
    """The overrides with one more, SECTION.stop_after=UPDATES, by what `--stop-after` says.

    asked: SECTION, a group of settings of a training, which then ends where it has come to by its last checkpoint; or
    SECTION=UPDATES. Raises UserError for another section, and for one of whose trainings nothing has come to anything.
    """
    from subgraft.orchestration.execution.early_stopping import reached
    from subgraft.orchestration.store.step import in_order

    section, _, updates = asked.partition("=")
    session = session_of(config, [*overrides, f"{section}.stop_after={updates or 1}"])
    if not updates:
        found = reached(session.store, in_order([session.pipeline.report]))
        if found is None:
            hint = f"Give a number of updates, as in --stop-after {section}=1000."
            raise UserError("no training of it has been begun and left unfinished", where=section, hint=hint)
        updates = str(found)
    return [*overrides, f"{section}.stop_after={updates}"]


NAME = "generator"


TextObjective = Literal["denoising", "masked", "causal"]


# A configuration is of some task. Here that is one whose models were pretrained so, and nothing else comes of it.
_TASKS: Mapping[str, TaskName] = {facts.finetuned_on.kind: name for name, facts in reversed(list(TASKS.items()))}


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
    """Train a generator, as `subgraft generator train` does, on Ray; the directory `out`, which `transfer` takes.

    pairs: of a model that translates, two files such as it was pretrained on.  text, objective: of any other, one file.
    languages: of the pairs; of one text twice the same.  kind: its form.  sides: those that it makes rows for.
    steps: updates of its training; by default the preset's.  preset: how large everything is.

    Stopped and called again with the same files, it carries on: the work is the store's. Raises UserError for files
    that are not there, and for an `out` that is neither absent nor empty.
    """
    out = path_of("out", out)
    sides = sides_of(sides)
    whole("steps", steps, 1, optional=True)
    one_of("preset", preset, ("small", "gpu", "paper"))
    one_of("objective", objective, get_args(TextObjective))
    one_of("kind", kind, names_with("trained"))
    require_empty_directory(out)
    files, checkpoint = _files(pairs, text), located(model)
    used: TextObjective | Literal["translation"] = "translation" if pairs else objective
    experiment = _experiment(
        {
            "name": NAME,
            "preset": preset,
            "task": _TASKS.get(used, "text-to-text"),
            "languages": pair_of(languages).model_dump(),
            "sides": list(sides),
            "corpora": {"upstream": {"files": {"train": files}}},
            "upstream": {
                "corpus": "upstream",
                "checkpoint": str(Path(checkpoint).absolute() if Path(checkpoint).is_dir() else checkpoint),
                "objectives": [{"kind": used}],
            },
            "downstream": {"corpus": "upstream"},
            "systems": [{"name": NAME, "initialiser": kind} | ({"generator_steps": steps} if steps else {})],
        }
    )
    _train(experiment, out)
    return out


def _files(pairs: tuple[Path | str, Path | str] | None, text: Path | str | None) -> list[str]:
    """Raises UserError where a file is missing, and where there are pairs and text, or neither."""
    if (pairs is None) == (text is None):
        raise ArgumentError("a generator is trained on pairs of files or on one text", where="pairs")
    files = [Path(file) for file in pairs or (text,) if file is not None]
    for path in files:
        if not require_path(path).is_file():
            raise UserError("no such file", where=str(path))
    return [str(path.absolute()) for path in files]


def _experiment(settings: dict[str, Any]) -> Experiment:
    """An experiment of nothing but the generator, as its configuration would say it."""
    from subgraft.config.experiment import Experiment
    from subgraft.config.loading import load

    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / f"{NAME}.yaml"
        written.write_text(json.dumps(settings), encoding="utf-8")  # JSON is YAML
        return load(written, Experiment)


def _train(experiment: Experiment, out: Path) -> None:
    from subgraft.base.terminal import Terminal
    from subgraft.experiments.pipeline import Pipeline
    from subgraft.orchestration.execution.progress import display_for
    from subgraft.orchestration.execution.runner import run
    from subgraft.orchestration.store.home import default_home
    from subgraft.orchestration.store.store import Store

    step = Pipeline(experiment, Path.cwd()).generator_of(experiment.systems[0])
    assert step is not None
    display = display_for(Terminal())
    store = Store(default_home().absolute(), display.say)
    try:
        run(store, [step], experiment.runtime, [display])
    finally:
        display.close()
    with new_directory(out) as place:
        shutil.copytree(store.path(step), place, dirs_exist_ok=True)
