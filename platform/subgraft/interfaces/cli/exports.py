"""subgraft export: a model in the form that another engine reads."""

from __future__ import annotations

import argparse
from pathlib import Path

from subgraft.base.errors import UserError
from subgraft.base.terminal_escaping import say
from subgraft.interfaces.api.arguments import local_model
from subgraft.interfaces.cli.arguments import MODEL_HELP, language_pair
from subgraft.interfaces.cli.output import Commands
from subgraft.orchestration.store.outputs import new_directory

# As subgraft.modeling.exporting.ctranslate2 has them, which takes seconds to import.
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16", "int8_bfloat16", "int16")


def add_to(commands: Commands) -> None:
    export = commands.add_parser("export", help="write a model in the form that another engine reads")
    export.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    export.add_argument("--to", required=True, choices=sorted(FORMATS), help="the engine")
    export.add_argument("--quantization", choices=QUANTIZATIONS, help="of ctranslate2's weights (default: float32)")
    export.add_argument(
        "--languages", type=language_pair, metavar="SOURCE-TARGET", help="of models with language codes, as in en-fr"
    )
    export.add_argument("--out", type=Path, required=True, metavar="DIR", help="absent or empty")
    export.set_defaults(command=export_model)


def export_model(arguments: argparse.Namespace) -> None:
    FORMATS[arguments.to](arguments)


def _to_ctranslate2(arguments: argparse.Namespace) -> None:
    from subgraft.modeling.exporting.ctranslate2 import NOTEWORTHY, export_ctranslate2

    quantization = arguments.quantization or "float32"
    with new_directory(arguments.out) as out:
        check = export_ctranslate2(local_model(arguments.model), out, quantization, arguments.languages)
    say(f"written to {arguments.out}, in {quantization}; `subgraft generate --model {arguments.out}` uses it")
    say(f"log-probabilities differ from the model's by {check.mean:.1e} on average, {check.largest:.1e} at most")
    if check.mean > NOTEWORTHY:
        say(
            f"[warning]  more than {NOTEWORTHY} on average: outputs may be worse. Compare scores of both by "
            f"`subgraft evaluate --model`, or export with --quantization float16 or float32"
        )


def _to_transformers(arguments: argparse.Namespace) -> None:
    from subgraft.modeling.exporting.transformers import export_transformers

    if arguments.quantization is not None:
        raise UserError("only ctranslate2 quantises", where="--quantization", hint="Leave it out.")
    with new_directory(arguments.out) as out:
        loading = export_transformers(local_model(arguments.model), out, arguments.languages)
    say(f"written to {arguments.out}: AutoTokenizer and {loading.model_class} load it")
    if loading.prompt:
        say(f"every text begins with the code of its target language: {loading.prompt}")
    if loading.model_code or loading.tokenizer_code:
        say("with trust_remote_code=True: transformers has no such class, so that its code lies in the directory")


FORMATS = {"ctranslate2": _to_ctranslate2, "transformers": _to_transformers}
