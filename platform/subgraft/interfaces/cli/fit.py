"""subgraft fit, advise: whether a new vocabulary is worth it for a model and a text."""

from __future__ import annotations

import argparse
import sys
from itertools import chain
from pathlib import Path

import subgraft
from subgraft.base.terminal_escaping import say
from subgraft.interfaces.cli.arguments import (
    MODEL_HELP,
    Commands,
    add_json,
    add_max_lost_lines,
    add_out,
    add_text,
    console,
    language_pair,
    print_json,
    selected,
)
from subgraft.orchestration.store.outputs import new_file, require_absent

WHAT = (
    "Finetunes the model on your pairs or labelled examples twice, with its own vocabulary and with one learnt from "
    "your text, translates or predicts held-out examples with both, and recommends one of the two. The amount of text "
    "determines sizes, rates and steps. The same command resumes a stopped fit."
)


def add_to(commands: Commands) -> None:
    fit = commands.add_parser("fit", help="fit a model to parallel files or labels, without YAML", description=WHAT)
    fit.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    pairs = (
        "two files, plain or gzipped; line N of one translates line N of the other. Lines that are blank in both end a "
        "document. Repeat it, each time with --languages, to train one model for several directions"
    )
    data = fit.add_mutually_exclusive_group(required=True)
    data.add_argument("--pairs", type=Path, nargs=2, action="append", metavar=("SOURCE", "TARGET"), help=pairs)
    labels = (
        "labelled examples in place of pairs: CSV, TSV or JSON lines with the columns text and label (and text_pair), "
        "or value in place of label, or CoNLL's words and tags; trains a classifier, a regression or a tagger"
    )
    data.add_argument("--labels", type=Path, metavar="FILE", help=labels)
    more = "more text in the target language, one segment per line, without translations"
    fit.add_argument("--text", type=Path, nargs="+", default=[], metavar="FILE", help=more)
    languages = "as in en-fr, for each --pairs in turn; needed if the model's files do not name them"
    fit.add_argument("--languages", type=language_pair, action="append", metavar="SOURCE-TARGET", help=languages)
    add_out(fit, "gets model/, report/, fit.yaml and the split text/; absent, empty, or of the same fit")
    add_max_lost_lines(fit)
    fit.add_argument("--quick", action="store_true", help="one seed, half the steps, 100 test sentences")
    fit.add_argument("--plan", action="store_true", help="split, measure and show the plan; train nothing")
    fit.set_defaults(command=run_fit)
    _add_advise(commands)


def run_fit(arguments: argparse.Namespace) -> None:
    from subgraft.interfaces.api.fit import fit_session

    files = tuple(chain.from_iterable(arguments.pairs)) if arguments.pairs else (arguments.labels,)
    options = selected(arguments, "out", "text", "quick", "max_lost_lines")
    labels, directions = arguments.labels is not None, tuple(arguments.languages or ())
    session = fit_session(arguments.model, files, console=console(), labels=labels, languages=directions, **options)
    if arguments.plan:
        session.plan()
    else:
        session.run()


def _add_advise(commands: Commands) -> None:
    advising = commands.add_parser(
        "advise", help="predict the effect of another vocabulary on a text, before any training"
    )
    advising.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    add_text(advising)
    side = "whether the model reads the text or writes it (default: decoder)"
    advising.add_argument("--side", choices=("encoder", "decoder"), default="decoder", help=side)
    advising.add_argument("--picture", type=Path, metavar="FILE.png", help="plot tokens per line by vocabulary size")
    add_json(advising)
    advising.set_defaults(command=advise)


def advise(arguments: argparse.Namespace) -> None:
    from subgraft.experiments.fit.preview_page import plot_png
    from subgraft.experiments.fit.vocabulary_preview import describe

    if arguments.picture:
        require_absent(arguments.picture)
    advice = subgraft.advise(arguments.model, arguments.text, side=arguments.side)
    if arguments.json:
        print_json(**describe(advice.preview), seconds=advice.cost)
    else:
        console().print(advice.table())
    if arguments.picture:
        with new_file(arguments.picture) as out:
            out.write_bytes(plot_png(advice.preview))
        say(f"picture written to {arguments.picture}", to=sys.stderr if arguments.json else sys.stdout)
