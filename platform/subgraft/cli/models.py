"""subgraft generate and evaluate: use a model, score what it wrote."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from subgraft.cli.output import Commands
from subgraft.errors import UserError


def add_to(commands: Commands) -> None:
    generate = commands.add_parser("generate", help="translate text with a model, or a registered one")
    generate.add_argument("--model", required=True, help="a directory, a hub id, or models:/NAME@ALIAS")
    generate.add_argument("--input", type=Path, metavar="FILE", help="one sentence per line; default: standard input")
    generate.add_argument("--beam", type=int, default=4)
    generate.add_argument("--batch-size", type=int, default=32)
    generate.add_argument("--languages", default="en-de", metavar="SOURCE-TARGET", help="of models with language codes")
    generate.set_defaults(command=generate_text)

    evaluate = commands.add_parser("evaluate", help="BLEU and chrF with their signatures")
    evaluate.add_argument("--hypotheses", type=Path, required=True, metavar="FILE")
    evaluate.add_argument("--references", type=Path, required=True, metavar="FILE")
    evaluate.add_argument("--task", choices=("translation",), default="translation")
    evaluate.add_argument("--language", default="", help="of the target; zh chooses BLEU's Chinese tokenizer")
    evaluate.set_defaults(command=evaluate_text)


def generate_text(arguments: argparse.Namespace) -> None:
    from subgraft.config import EvaluationSettings, Languages
    from subgraft.models.bundle import Bundle
    from subgraft.stages.evaluate import translator
    from subgraft.text import reading

    source, _, target = arguments.languages.partition("-")
    if arguments.input:
        lines = list(reading.lines(arguments.input))
    else:
        lines = sys.stdin.read().splitlines()
    bundle = Bundle.load(_directory_of(arguments.model))
    if "encoder" not in bundle.tokenizers:
        raise UserError("this model has no encoder, so it cannot translate", where=arguments.model)
    settings = EvaluationSettings(beam=arguments.beam, batch_size=arguments.batch_size)
    translate = translator(bundle, Languages(source=source, target=target), settings)
    for line in translate(lines, arguments.batch_size):
        print(line)


def _directory_of(model: str) -> str:
    """Where a model is: registered ones are fetched from the registry."""
    if not model.startswith("models:/"):
        return model
    from subgraft.experiment.store import default_home
    from subgraft.experiment.tracking import Server

    return str(Server(default_home()).resolve(model))


def evaluate_text(arguments: argparse.Namespace) -> None:
    from subgraft.metrics.scores import corpus_scores
    from subgraft.text import reading

    hypotheses, references = (list(reading.lines(path)) for path in (arguments.hypotheses, arguments.references))
    for score in corpus_scores(hypotheses, references, arguments.language).values():
        print(f"{score.name}\t{score.value:.2f}\t{score.signature}")
