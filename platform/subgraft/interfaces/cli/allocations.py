"""subgraft vocab capacity | allocate: what a vocabulary has for languages, and one that is shared out among them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.errors import UserError
from subgraft.base.terminal_escaping import say
from subgraft.interfaces.cli.output import Commands, console
from subgraft.orchestration.store.outputs import new_directory

if TYPE_CHECKING:
    from subgraft.subwords.allocation.capacity import Capacity


def add_to(group: Commands) -> None:
    judging = group.add_parser("capacity", help="what a vocabulary has for each language (ALP), of any text")
    judging.add_argument("vocabulary", metavar="MODEL", help="a vocabulary or model directory, or a hub id")
    judging.add_argument(
        "--text",
        type=_language_file,
        nargs="+",
        required=True,
        metavar="LANG=FILE",
        help="UTF-8, plain or gz; LANG may be followed by a split, as in sw/dev=FILE",
    )
    judging.set_defaults(command=capacity)
    allocating = group.add_parser(
        "allocate", help="share one vocabulary out among languages; what is done already is not done again"
    )
    allocating.add_argument("config", type=Path, metavar="CONFIG", help="a YAML file, as configs/vocap.yaml")
    allocating.add_argument("overrides", nargs="*", default=[], metavar="key=value", help="as in totals=[60000]")
    allocating.add_argument("--plan", action="store_true", help="show what would be done only")
    allocating.add_argument("--address", help="of a Ray cluster; default: one on this machine")
    allocating.add_argument("--out", type=Path, metavar="DIR", help="copy report and vocabularies; absent or empty")
    allocating.set_defaults(command=allocate)


def _language_file(text: str) -> tuple[str, Path]:
    language, equals, file = text.partition("=")
    if not (language and equals and file):
        raise argparse.ArgumentTypeError(f"expected a language and a file, as in sw=sw.txt, found '{text}'")
    return language, Path(file)


def capacity(arguments: argparse.Namespace) -> None:
    from subgraft.interfaces.api.vocabularies import capacities

    texts: dict[str, Path] = {}
    for language, file in arguments.text:
        if language in texts:
            hint = "Give all of its text in one file, or name a split: sw/train=… sw/dev=…."
            raise UserError(f"the language '{language}' comes twice", where="--text", hint=hint)
        texts[language] = file
    _show(capacities(arguments.vocabulary, texts))


def _show(found: dict[str, Capacity]) -> None:
    from subgraft.base.terminal import Sheet

    headings = ["text", "sentences", "ALP", "pieces used", "tokens/word", "characters/token", "unknown", "bytes"]
    table = Sheet(*headings, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for language, each in found.items():
        table.add_row(
            language,
            f"{each.sentences:,}",
            f"{each.alp:.3f}",
            f"{each.pieces:,}",
            f"{each.tokens_per_word:.3f}",
            f"{each.characters_per_token:.2f}",
            f"{each.unknown:,} ({each.unknown / max(1, each.tokens):.2%})",
            f"{each.byte_tokens:,}",
        )
    console().print(table)
    say("ALP: nats a sentence by the text's own unigram; not comparable between texts of other sentences.")


def allocate(arguments: argparse.Namespace) -> None:
    import shutil

    from subgraft.base.terminal import Terminal
    from subgraft.interfaces.api.vocabularies import allocation_session
    from subgraft.orchestration.execution.plan import table
    from subgraft.orchestration.store.outputs import require_empty_directory

    session = allocation_session(arguments.config, arguments.overrides)
    if arguments.plan:
        console().print(table(session.plan()))
        return
    if arguments.out:
        require_empty_directory(arguments.out)
    finished = session.run(Terminal(), arguments.address)
    for shown in finished.tables:
        console().print(shown)
    say(f"report       {finished.report}")
    for total, place in finished.vocabularies.items():
        say(f"{total:<12,} {place}")
    if arguments.out:
        with new_directory(arguments.out) as out:
            shutil.copytree(finished.report.parent, out / "report")
            for total, place in finished.vocabularies.items():
                shutil.copytree(place, out / str(total))
        say(f"copied       {arguments.out}")
