"""subgraft generate and evaluate: use a model, score what it wrote."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.cli.arguments import language_pair, whole
from subgraft.cli.exports import exported_outputs
from subgraft.cli.output import Commands
from subgraft.cli.registered import HELP, local_model
from subgraft.config.tasks import TASKS
from subgraft.errors import UserError
from subgraft.limits import LARGEST_BEAM
from subgraft.printed import say, write

if TYPE_CHECKING:
    from subgraft.vocabulary.tokenizer import Tokenizer


def add_to(commands: Commands) -> None:
    generate = commands.add_parser("generate", help="write texts with a model, or a registered one")
    generate.add_argument("--model", required=True, help=HELP)
    whose = "one sentence or prompt per line; default: standard input"
    generate.add_argument("--input", type=Path, metavar="FILE", help=whose)
    most = "of each output, beside the limit by its source's or prompt's length (of a model without an encoder)"
    generate.add_argument("--max-tokens", type=whole(1), metavar="NUMBER", help=most)
    _add_generation(generate)
    generate.set_defaults(command=generate_text)

    evaluate = commands.add_parser("evaluate", help="BLEU, chrF, TER, ROUGE-L and METEOR with their signatures")
    outputs = evaluate.add_mutually_exclusive_group(required=True)
    outputs.add_argument("--hypotheses", type=Path, metavar="FILE")
    outputs.add_argument("--model", help=f"{HELP}, which translates --sources first")
    evaluate.add_argument("--sources", type=Path, metavar="FILE", help="of --model")
    evaluate.add_argument("--references", type=Path, required=True, metavar="FILE")
    _add_generation(evaluate)
    scored = [name for name, facts in TASKS.items() if facts.metrics]
    evaluate.add_argument("--task", choices=scored, default="translation", help="which says by what metrics")
    language = "of the target (fr): it chooses METEOR's stemmer; zh is scored by characters"
    evaluate.add_argument("--language", default="", help=language)
    evaluate.set_defaults(command=evaluate_text)


def _add_generation(command: argparse.ArgumentParser) -> None:
    command.add_argument("--beam", type=whole(1, LARGEST_BEAM), default=4, help="beam size (default 4)")
    command.add_argument("--batch-size", type=whole(1), default=32, help="sentences at a time (default 32)")
    command.add_argument(
        "--languages",
        type=language_pair,
        metavar="SOURCE-TARGET",
        help="of models with language codes, as in en-de or eng_Latn-deu_Latn; default: those the model was made for",
    )


def generate_text(arguments: argparse.Namespace) -> None:
    from subgraft.text import reading

    lines = list(reading.lines(arguments.input) if arguments.input else _standard_input())
    for line in _outputs(arguments, lines, prompts=True):
        write(line)


def _outputs(arguments: argparse.Namespace, lines: Sequence[str], *, prompts: bool) -> list[str]:
    """What the model that was asked for makes of texts.

    prompts: whether one without an encoder may continue them; else UserError is raised for it.
    """
    # These take seconds to load; a mistake in the text is reported at once.
    from subgraft.config.evaluation import MeasurementSettings
    from subgraft.inference.ctranslate2_directory import is_exported
    from subgraft.models.bundle import Bundle
    from subgraft.models.families import family_of
    from subgraft.models.hub import read_config, require_model
    from subgraft.models.told_languages import told_languages
    from subgraft.stages.continuation import continuer
    from subgraft.stages.evaluate import translator

    if is_exported(Path(arguments.model)):
        return exported_outputs(arguments, lines, prompts=prompts)
    directory = require_model(local_model(arguments.model))
    if not (family := family_of(read_config(directory))).generates:
        hint = "`subgraft assemble` makes an encoder-decoder of it, which is finetuned before it writes anything."
        raise UserError(f"{family.model_type} models write no text", where=arguments.model, hint=hint)
    bundle, languages = Bundle.load(directory), arguments.languages or told_languages(directory)
    _refuse_codes(lines, bundle.encoder)
    settings = MeasurementSettings(beam=arguments.beam, batch_size=arguments.batch_size)
    if "encoder" not in bundle.tokenizers:
        if not prompts:
            raise UserError("this model has no encoder, so it cannot translate", where=arguments.model)
        return continuer(bundle, languages, settings, arguments.max_tokens)(lines, arguments.batch_size)
    if prompts and arguments.max_tokens is not None:
        raise UserError(
            "this model has an encoder: its outputs are limited by the length of their sources",
            where="--max-tokens",
            hint="Leave it out.",
        )
    translate = translator(bundle, languages, settings)
    return translate(lines, arguments.batch_size)


def _refuse_codes(lines: Sequence[str], tokenizer: Tokenizer) -> None:
    """Raises UserError for a line that begins with the code of a language, which would be read as text."""
    for number, line in enumerate(lines, 1):
        code = next((code for code in tokenizer.languages if line.startswith(code)), None)
        if code is not None:
            hint = "Leave it out of the text, and say --languages SOURCE-TARGET."
            raise UserError(f"the text begins with the language code {code}", where=f"line {number}", hint=hint)


def _standard_input() -> Iterator[str]:
    """Its lines, by the rules of files. Raises UserError naming the line that is not UTF-8."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        try:
            yield line.decode("utf-8").removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise UserError("not UTF-8", where=f"standard input:{number}", hint="Convert the text to UTF-8.") from None


def evaluate_text(arguments: argparse.Namespace) -> None:
    from subgraft.metrics.scores import check_parallel, corpus_scores
    from subgraft.text import reading

    if (arguments.model is None) != (arguments.sources is None):
        raise UserError("a model is evaluated on --sources, and nothing else takes them", where="evaluate")
    kind = "hypotheses" if arguments.model is None else "sources"
    hypotheses, references = (list(reading.lines(path)) for path in (vars(arguments)[kind], arguments.references))
    check_parallel(hypotheses, references, f"{vars(arguments)[kind]} and {arguments.references}", kind)
    if arguments.model is not None:
        hypotheses = _outputs(arguments, hypotheses, prompts=False)
    metrics = TASKS[arguments.task].metrics
    for score in corpus_scores(hypotheses, references, arguments.language, metrics).values():
        say(f"{score.name}\t{score.value:.2f}\t{score.signature}")
