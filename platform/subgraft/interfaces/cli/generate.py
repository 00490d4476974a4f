"""subgraft generate: text that a model writes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, get_args

from subgraft.base.errors import UserError
from subgraft.base.limits import MAX_BEAM_SIZE, MAX_SEQUENCE_LENGTH
from subgraft.base.security.terminal_escaping import write
from subgraft.config.settings_base import DecodingEngine
from subgraft.data.text import reading
from subgraft.interfaces.cli.arguments import (
    MODEL_HELP,
    Commands,
    ModelName,
    add_languages,
    input_file,
    selected,
    standard_input,
    whole_number,
)

# Options of a model's generation.
SEARCH = ("languages", "beam", "batch_size")


def add_to(commands: Commands) -> None:
    generate = commands.add_parser("generate", help="generate text with a model")
    generate.add_argument("--model", type=ModelName, required=True, help=f"{MODEL_HELP}, an export, or a GGUF")
    lines = "one sentence or prompt per line; default, and for -: standard input"
    inputs = generate.add_mutually_exclusive_group()
    inputs.add_argument("--input", type=input_file, metavar="FILE", help=lines)
    features = "safetensors file of the features that a model of `task: feature-conditional` reads"
    inputs.add_argument("--features", type=Path, metavar="FILE", help=features)
    limit = "limit of each output of a model without an encoder, besides the one that follows from its source or prompt"
    generate.add_argument("--max-tokens", type=whole_number(1), metavar="NUMBER", help=limit)
    turn = "put each line as a user's turn into the chat template of an instruct model, which answers it"
    generate.add_argument("--chat", action="store_true", help=turn)
    engine = "what decodes (default: that of an export or a GGUF; of a model, transformers)"
    generate.add_argument("--engine", choices=get_args(DecodingEngine), help=engine)
    add_generation(generate)
    blocks = (
        "read blank lines as ends of documents, which an mBART translates in blocks of at most TOKENS (default 512)"
    )
    add_documents(generate, blocks)
    generate.set_defaults(command=generate_text)


def add_generation(command: argparse.ArgumentParser) -> None:
    command.add_argument("--beam", type=whole_number(1, MAX_BEAM_SIZE), help="beam size (default 4; in llama.cpp 1)")
    command.add_argument("--batch-size", type=whole_number(1), help="sentences at a time (default 32)")
    add_languages(
        command,
        "for models with language codes, as in en-de or eng_Latn-deu_Latn (default: those the model was made for)",
    )


def add_documents(command: argparse.ArgumentParser, about: str) -> None:
    command.add_argument(
        "--documents", type=whole_number(4, MAX_SEQUENCE_LENGTH), nargs="?", const=512, metavar="TOKENS", help=about
    )


def generate_text(arguments: argparse.Namespace) -> None:
    if arguments.documents is not None:
        _generate_documents(arguments)
        return
    inputs: Any = None
    if arguments.features is None:
        inputs = list(reading.lines(arguments.input) if arguments.input else standard_input())
    from subgraft.interfaces.api.model import (  # takes seconds to load; a mistake in the text is reported at once
        features_in,
        generate,
    )
    from subgraft.orchestration.execution.progress import counting

    inputs = features_in(arguments.features) if inputs is None else inputs
    with counting("generating") as progress:
        search = search_options(arguments)
        options = {"max_tokens": arguments.max_tokens, "chat": arguments.chat, "engine": arguments.engine}
        outputs = generate(arguments.model, inputs, **search, **options, progress=progress)
    for line in outputs:
        write(line)


def _generate_documents(arguments: argparse.Namespace) -> None:
    """Print documents with blank lines between them, and without empty sentences, which would also be blank lines."""
    inapplicable = [name for name in ("features", "chat", "max_tokens", "engine") if getattr(arguments, name)]
    if inapplicable:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in inapplicable)
        raise UserError(f"these do not apply to --documents: {names}", where="--documents", hint="Leave them out.")
    lines = list(reading.lines(arguments.input) if arguments.input else standard_input())
    for number, document in enumerate(translated_documents(arguments, lines)):
        for line in [""] * (number > 0) + [sentence for sentence in document if sentence.strip()]:
            write(line)


def translated_documents(arguments: argparse.Namespace, lines: list[str]) -> list[list[str]]:
    from subgraft.interfaces.api.documents import documents_of, translate_documents
    from subgraft.orchestration.execution.progress import counting

    with counting("translating") as progress:
        search = {**search_options(arguments), "block_tokens": arguments.documents}
        return translate_documents(arguments.model, documents_of(lines), **search, progress=progress)


def search_options(arguments: argparse.Namespace) -> dict[str, Any]:
    return {name: value for name, value in selected(arguments, *SEARCH).items() if value is not None}
