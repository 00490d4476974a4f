"""subgraft advise: what another vocabulary would do for a text, before anything is trained."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path

from subgraft.base.terminal_escaping import say
from subgraft.config.settings_base import SideName
from subgraft.interfaces.cli.arguments import MODEL_HELP
from subgraft.interfaces.cli.output import Commands, console
from subgraft.orchestration.store.outputs import new_file, require_absent

# The most lines that are looked at, drawn from all of the text.
MOST_LINES = 100_000


def add_to(commands: Commands) -> None:
    advising = commands.add_parser("advise", help="what another vocabulary would do for a text, before any training")
    advising.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    advising.add_argument("--text", type=Path, nargs="+", required=True, metavar="FILE", help="UTF-8, plain or gz")
    advising.add_argument(
        "--side",
        choices=("encoder", "decoder"),
        default="decoder",
        help="whether the model reads the text or writes it (default: decoder)",
    )
    advising.add_argument("--picture", type=Path, metavar="FILE.png", help="tokens of a line by size, as a picture")
    advising.set_defaults(command=advise)


def advise(arguments: argparse.Namespace) -> None:
    from subgraft.data.text import reading
    from subgraft.experiments.fit.preview_page import picture, render
    from subgraft.experiments.fit.sentence_cost import measure_cost
    from subgraft.experiments.fit.vocabulary_preview import look_ahead
    from subgraft.interfaces.api.arguments import local_model
    from subgraft.modeling.bundle import Bundle
    from subgraft.subwords.vocabulary.learn import sample

    if arguments.picture:
        require_absent(arguments.picture)
    bundle = Bundle.load(local_model(arguments.model))
    lines = sample(chain.from_iterable(reading.lines(path) for path in arguments.text), MOST_LINES, seed=1)
    side: SideName = "encoder" if arguments.side == "encoder" and "encoder" in bundle.tokenizers else "decoder"
    preview = look_ahead(bundle.tokenizers[side], [line for line in lines if line.strip()])
    cost = measure_cost(bundle, side) if side == "decoder" else None
    console().print(render(preview, cost, continues="encoder" not in bundle.tokenizers))
    if arguments.picture:
        with new_file(arguments.picture) as out:
            out.write_bytes(picture(preview))
        say(f"picture written to {arguments.picture}")
