"""subgraft generate and evaluate: use a model, score what it wrote."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from subgraft.cli.arguments import language_pair, whole
from subgraft.cli.output import Commands
from subgraft.errors import UserError


def add_to(commands: Commands) -> None:
    generate = commands.add_parser("generate", help="write texts with a model, or a registered one")
    generate.add_argument("--model", required=True, help="a directory, a hub id, or models:/NAME@ALIAS")
    generate.add_argument("--input", type=Path, metavar="FILE", help="one sentence per line; default: standard input")
    generate.add_argument("--beam", type=whole(1), default=4, help="beam size (default 4)")
    generate.add_argument("--batch-size", type=whole(1), default=32, help="sentences at a time (default 32)")
    generate.add_argument(
        "--languages",
        type=language_pair,
        default="en-de",
        metavar="SOURCE-TARGET",
        help="of models with language codes (default: en-de)",
    )
    generate.set_defaults(command=generate_text)

    evaluate = commands.add_parser("evaluate", help="BLEU, chrF, TER, ROUGE-L and METEOR with their signatures")
    evaluate.add_argument("--hypotheses", type=Path, required=True, metavar="FILE")
    evaluate.add_argument("--references", type=Path, required=True, metavar="FILE")
    language = "of the target (fr): it chooses METEOR's stemmer; zh is scored by characters"
    evaluate.add_argument("--language", default="", help=language)
    evaluate.set_defaults(command=evaluate_text)


def generate_text(arguments: argparse.Namespace) -> None:
    from subgraft.text import reading

    lines = list(reading.lines(arguments.input) if arguments.input else _standard_input())
    # These take seconds to load; a mistake in the text is told at once.
    from subgraft.models.bundle import Bundle
    from subgraft.settings import EvaluationSettings
    from subgraft.stages.evaluate import translator

    bundle = Bundle.load(_directory_of(arguments.model))
    if "encoder" not in bundle.tokenizers:
        raise UserError("this model has no encoder, so it cannot translate", where=arguments.model)
    settings = EvaluationSettings(beam=arguments.beam, batch_size=arguments.batch_size)
    translate = translator(bundle, arguments.languages, settings)
    for line in translate(lines, arguments.batch_size):
        print(line)


def _standard_input() -> Iterator[str]:
    """Its lines, by the rules of files. Raises UserError naming the line that is not UTF-8."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise UserError("not UTF-8", where=f"standard input:{number}", mend="Convert the text to UTF-8.") from None


def _directory_of(model: str) -> str:
    """Where a model is: registered ones are fetched from the registry."""
    if not model.startswith("models:/"):
        return model
    from subgraft.cli.experiments import recorded

    with recorded() as server:
        return str(server.resolve(model))


def evaluate_text(arguments: argparse.Namespace) -> None:
    from subgraft.metrics.scores import corpus_scores
    from subgraft.text import reading

    hypotheses, references = (list(reading.lines(path)) for path in (arguments.hypotheses, arguments.references))
    where = f"{arguments.hypotheses} and {arguments.references}"
    for score in corpus_scores(hypotheses, references, arguments.language, where=where).values():
        print(f"{score.name}\t{score.value:.2f}\t{score.signature}")
