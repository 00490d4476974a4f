"""subgraft fit, advise: whether a new vocabulary is worth it for a model and a text."""

from __future__ import annotations

import argparse
import math
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import subgraft
from subgraft.base.errors import ArgumentError
from subgraft.base.limits import MIN_TRAINING_CHARACTERS
from subgraft.base.security.terminal_escaping import say
from subgraft.interfaces.cli.arguments import (
    MODEL_HELP,
    Commands,
    ModelName,
    add_field,
    add_json,
    add_max_lost_lines,
    add_out,
    add_text,
    console,
    language_pair,
    number_in,
    print_json,
    selected,
    text_field,
    whole_number,
)
from subgraft.orchestration.store.outputs import new_file, require_absent

if TYPE_CHECKING:
    from subgraft.config.corpora import Languages

DATASETS = "Or a data set: hf://datasets/OWNER/NAME[/CONFIGURATION][/SPLIT], or a folder of datasets' save_to_disk"
WHAT = (
    "Finetunes the model on your pairs, labelled examples or, for language models, text: with its own vocabulary and "
    "with one learnt from your text. Tests them on held-out examples, and recommends one. The amount of text "
    "determines sizes, rates and steps. The same command resumes a stopped fit."
)


def add_to(commands: Commands) -> None:
    fit = commands.add_parser("fit", help="fit a model to text, pairs or labels, without YAML", description=WHAT)
    fit.add_argument("model", type=ModelName, metavar="MODEL", help=MODEL_HELP)
    pairs = (
        "two files, plain or gzipped; line N of one translates line N of the other. Lines that are blank in both end a "
        "document. Or one file: bilingual (TMX, XLIFF) or a table (CSV, TSV, JSON lines, Parquet). Repeat it, each "
        f"time with --languages, to train one model for several directions. {DATASETS}"
    )
    data = fit.add_mutually_exclusive_group()
    data.add_argument("--pairs", type=Path, nargs="+", action="append", metavar="FILE", help=pairs)
    labels = (
        "labelled examples in place of pairs: CSV, TSV, JSON lines or Parquet with the columns text and label (and "
        "text_pair), or value in place of label, or CoNLL's words and tags; trains a classifier, a regression or a "
        "tagger; or a data set"
    )
    data.add_argument("--labels", type=Path, metavar="FILE", help=labels)
    chat = (
        "conversations for an instruct model, which learns the answers: JSON lines, Parquet, or folders of these, with "
        "messages of role and content, or ShareGPT's conversations of from and value; or a data set"
    )
    data.add_argument("--chat", type=Path, nargs="+", default=[], metavar="FILE", help=chat)
    text = (
        "text for a language model: files of lines (blank lines end a document), JSON lines, CSV, TSV, Parquet, "
        "folders of these, or a data set. With --pairs: more text in the target language, one segment per line, "
        "without translations"
    )
    fit.add_argument("--text", type=Path, nargs="+", default=[], metavar="FILE", help=text)
    other = "with --text or --chat: other text, on which the model must not become worse"
    fit.add_argument("--other", type=Path, nargs="+", default=[], metavar="FILE", help=other)
    field = (
        "a column that has another name: with --text that of the text in JSON lines and tables (default: text); with "
        "--labels as in label=stars, with --pairs as in source=english, repeatable"
    )
    add_field(fit, field)
    alone = "with --text or --chat: the model is for this text alone, so that its vocabulary may be replaced too"
    fit.add_argument("--only-this-text", action="store_true", help=alone)
    characters = "with --text, --chat: how many characters each training reads (default: two passes, at most a million)"
    budget = fit.add_mutually_exclusive_group()
    budget.add_argument("--characters", type=whole_number(MIN_TRAINING_CHARACTERS), metavar="N", help=characters)
    hours = (
        "in its place: as many as the fit has time for on this machine, with all evaluations and starts, at most two "
        "passes"
    )
    positive = number_in("above zero", lambda value: 0 < value < math.inf)
    budget.add_argument("--hours", type=positive, metavar="H", help=hours)
    languages = "as in en-fr, for each --pairs in turn; needed if the model's files do not name them"
    fit.add_argument("--languages", type=language_pair, action="append", metavar="SOURCE-TARGET", help=languages)
    add_out(fit, "gets model/, report/, fit.yaml and the split text/; absent, empty, or of the same fit")
    add_max_lost_lines(fit)
    quick = "one seed, and half the steps and 100 test sentences, or at most 100,000 characters of text"
    fit.add_argument("--quick", action="store_true", help=quick)
    fit.add_argument("--plan", action="store_true", help="split, measure and show the plan; train nothing")
    fit.set_defaults(command=run_fit, resumes=True)
    _add_advise(commands)


def run_fit(arguments: argparse.Namespace) -> None:
    from subgraft.interfaces.api.fit import fit_session, refuse_options_of_text, text_session
    from subgraft.interfaces.api.inputs import labelled_file

    directions = tuple(arguments.languages or ())
    common = selected(arguments, "out", "quick", "max_lost_lines", "text") | {"console": console()}
    own = selected(arguments, "chat", "other", "only_this_text", "characters", "hours")
    with ExitStack() as stack:
        if arguments.pairs or arguments.labels:
            refuse_options_of_text(**own)
            files: tuple[Path, ...]
            if arguments.pairs:
                files, directions = _pair_files(arguments, directions, stack)
            else:
                files = stack.enter_context(labelled_file(arguments.labels))
            labels, columns = arguments.labels is not None, dict(arguments.field)
            session = fit_session(
                arguments.model, files, labels=labels, languages=directions, columns=columns, **common
            )
        else:
            own |= {"field": text_field(arguments)}
            session = text_session(arguments.model, languages=directions, **common, **own)
        if arguments.plan:
            session.plan()
        else:
            session.run()


def _pair_files(
    arguments: argparse.Namespace, directions: tuple[Languages, ...], stack: ExitStack
) -> tuple[tuple[Path, ...], tuple[Languages, ...]]:
    """Two files for each group of pairs, and the directions; files made of one file are temporary."""
    from subgraft.interfaces.api.inputs import pair_columns, pair_files

    columns, groups = pair_columns(dict(arguments.field)), arguments.pairs
    files: tuple[Path, ...] = ()
    for number, group in enumerate(groups):
        if len(group) > 2:
            hint = "Give a file of sources and a file of their translations, or one file (TMX, XLIFF, a table)."
            raise ArgumentError(f"expected two files, found {len(group)}", where="pairs", hint=hint)
        requested = directions[number] if number < len(directions) else None
        pairs = group[0] if len(group) == 1 else tuple(group)
        pair, both = stack.enter_context(pair_files(pairs, arguments.model, requested, columns))
        directions = directions if directions or len(groups) > 1 or pair is None else (pair,)
        files += both
    return files, directions


def _add_advise(commands: Commands) -> None:
    advising = commands.add_parser(
        "advise", help="predict the effect of another vocabulary on a text, before any training"
    )
    advising.add_argument("model", type=ModelName, metavar="MODEL", help=MODEL_HELP)
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
    advice = subgraft.advise(arguments.model, arguments.text, **selected(arguments, "side", "field"))
    if arguments.json:
        print_json(verdict=advice.verdict, **describe(advice.preview), seconds=advice.cost)
    else:
        console().print(advice.table())
    if arguments.picture:
        with new_file(arguments.picture) as out:
            out.write_bytes(plot_png(advice.preview))
        say(f"picture written to {arguments.picture}", to=sys.stderr if arguments.json else sys.stdout)
