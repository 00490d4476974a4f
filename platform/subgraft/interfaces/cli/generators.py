"""subgraft generator train: a generator of embeddings for a model, once for all of its tasks."""

from __future__ import annotations

import argparse
from pathlib import Path

from subgraft.base.terminal_escaping import say
from subgraft.config.initialiser_registry import names_with
from subgraft.interfaces.cli.arguments import MODEL_HELP, language_pair, sides, whole
from subgraft.interfaces.cli.output import Commands


def add_to(commands: Commands) -> None:
    group = commands.add_parser("generator", help="train generators of embeddings").add_subparsers(required=True)
    train = group.add_parser("train", help="train one on text such as the model was pretrained on")
    train.add_argument("--model", required=True, help=MODEL_HELP)
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
    train.add_argument(
        "--sides", type=sides, default=("decoder",), metavar="decoder|encoder,decoder", help="default: decoder"
    )
    train.add_argument("--steps", type=whole(1), help="of its training; default: the preset's")
    train.add_argument("--preset", choices=("small", "gpu", "paper"), default="small", help="default: small")
    train.add_argument("--out", type=Path, required=True, metavar="DIR", help="absent or empty")
    train.set_defaults(command=train_generator)


def train_generator(arguments: argparse.Namespace) -> None:
    from subgraft.interfaces.api import generators

    generators.train_generator(
        arguments.model,
        languages=arguments.languages,
        out=arguments.out,
        pairs=arguments.pairs and tuple(arguments.pairs),
        text=arguments.text,
        objective=arguments.objective,
        kind=arguments.kind,
        sides=arguments.sides,
        steps=arguments.steps,
        preset=arguments.preset,
    )
    say(f"written to {arguments.out}; `subgraft transfer --method {arguments.kind} --generator` takes it")
