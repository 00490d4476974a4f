"""subgraft generator train: a generator of embeddings for a model, once for all of its tasks."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subgraft.cli.arguments import language_pair, whole
from subgraft.cli.output import Commands, console, new_directory, require_empty_directory
from subgraft.cli.registered import HELP, local_model
from subgraft.config.initialiser_facts import names_with
from subgraft.config.tasks import TASKS, TaskName
from subgraft.errors import UserError
from subgraft.printed import say

if TYPE_CHECKING:
    from subgraft.config.experiment import Experiment

NAME = "generator"
# A configuration is of some task. Here that is one whose models were pretrained so, and nothing else comes of it.
_TASKS: Mapping[str, TaskName] = {facts.finetuned_on.kind: name for name, facts in reversed(list(TASKS.items()))}


def add_to(commands: Commands) -> None:
    group = commands.add_parser("generator", help="train generators of embeddings").add_subparsers(required=True)
    train = group.add_parser("train", help="train one on text such as the model was pretrained on")
    train.add_argument("--model", required=True, help=HELP)
    text = train.add_mutually_exclusive_group(required=True)
    text.add_argument("--pairs", type=Path, nargs=2, metavar=("SOURCE", "TARGET"), help="of a model that translates")
    text.add_argument("--text", type=Path, metavar="FILE", help="of any other model; UTF-8, plain or gz")
    train.add_argument(
        "--languages", type=language_pair, required=True, metavar="SOURCE-TARGET", help="en-fr; of one text, en-en"
    )
    objectives = ("denoising", "masked", "causal")
    train.add_argument("--objective", choices=objectives, default="causal", help="of --text (default: causal)")
    kinds = names_with("trained")
    train.add_argument("--kind", choices=kinds, default="network", help="default: network")
    train.add_argument("--sides", default="decoder", metavar="decoder|encoder,decoder", help="default: decoder")
    train.add_argument("--steps", type=whole(1), help="of its training; default: the preset's")
    train.add_argument("--preset", choices=("small", "gpu", "paper"), default="small", help="default: small")
    train.add_argument("--out", type=Path, required=True, metavar="DIR", help="absent or empty")
    train.set_defaults(command=train_generator)


def train_generator(arguments: argparse.Namespace) -> None:
    """Stopped and called again with the same files, it carries on: the work is the store's."""
    require_empty_directory(arguments.out)
    experiment = _experiment(arguments)
    from subgraft.execution.progress import display_for
    from subgraft.execution.runner import run
    from subgraft.experiment.pipeline import Pipeline
    from subgraft.store.store import Store, default_home

    step = Pipeline(experiment, Path.cwd()).generator_of(experiment.systems[0])
    assert step is not None
    display = display_for(console())
    store = Store(default_home().absolute(), display.say)
    try:
        run(store, [step], experiment.runtime, [display])
    finally:
        display.close()
    with new_directory(arguments.out) as out:
        shutil.copytree(store.path(step), out, dirs_exist_ok=True)
    say(f"written to {arguments.out}; `subgraft transfer --method {arguments.kind} --generator` takes it")


def _experiment(arguments: argparse.Namespace) -> Experiment:
    """An experiment of nothing but the generator, as its configuration would say it."""
    from subgraft.config.configfile import load
    from subgraft.config.experiment import Experiment

    for path in arguments.pairs or [arguments.text]:
        if not path.is_file():
            raise UserError("no such file", where=str(path))
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / f"{NAME}.yaml"
        written.write_text(json.dumps(_settings(arguments)), encoding="utf-8")  # JSON is YAML
        return load(written, Experiment)


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    files = [str(path.absolute()) for path in arguments.pairs or [arguments.text]]
    objective = "translation" if arguments.pairs else arguments.objective
    model = local_model(arguments.model)
    system = {"name": NAME, "initialiser": arguments.kind}
    return {
        "name": NAME,
        "preset": arguments.preset,
        "task": _TASKS.get(objective, "text-to-text"),
        "languages": {"source": arguments.languages.source, "target": arguments.languages.target},
        "sides": arguments.sides.split(","),
        "corpora": {"upstream": {"files": {"train": files}}},
        "upstream": {
            "corpus": "upstream",
            "checkpoint": str(Path(model).absolute()) if Path(model).is_dir() else model,
            "objectives": [{"kind": objective}],
        },
        "downstream": {"corpus": "upstream"},
        "systems": [system | ({"generator_steps": arguments.steps} if arguments.steps else {})],
    }
