"""A generator of embeddings for a model, trained once for all of its tasks."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from subgraft.base.errors import ArgumentError, UserError
from subgraft.base.files import require_path
from subgraft.base.terminal import Terminal
from subgraft.config.initialiser_registry import names_with
from subgraft.config.settings_base import SideName
from subgraft.config.tasks import TASKS, TaskName
from subgraft.interfaces.api.arguments import LanguagePair, located, one_of, pair_of, path_of, sides_of, whole
from subgraft.orchestration.store.outputs import new_directory, require_empty_directory

if TYPE_CHECKING:
    from subgraft.config.experiment import Experiment

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
