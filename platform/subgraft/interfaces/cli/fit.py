"""subgraft fit: from a model and two parallel files to the answer whether a vocabulary of their own is worth it."""

from __future__ import annotations

import argparse
from pathlib import Path

from subgraft.interfaces.api.arguments import local_model
from subgraft.interfaces.cli.arguments import MODEL_HELP, language_pair
from subgraft.interfaces.cli.output import Commands, console

WHAT = (
    "Finetunes the model on your pairs twice, with its own vocabulary and with one learnt from your text, translates "
    "held-out sentences with both, and says which of the two to take. Sizes, rates and steps are chosen by the amount "
    "of text. Stopped and run again, it carries on."
)


def add_to(commands: Commands) -> None:
    fit = commands.add_parser("fit", help="fit a model to two parallel files, without YAML", description=WHAT)
    fit.add_argument("model", metavar="MODEL", help=MODEL_HELP)
    fit.add_argument(
        "--pairs",
        type=Path,
        nargs=2,
        required=True,
        metavar=("SOURCE", "TARGET"),
        help="two files of text or gzipped text, line N of one the translation of line N of the other; lines that are "
        "blank in both mark where a document ends",
    )
    fit.add_argument(
        "--text",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="more text of the target language, a segment a line, without translations",
    )
    fit.add_argument(
        "--languages",
        type=language_pair,
        metavar="SOURCE-TARGET",
        help="as in en-fr; needed where the model does not tell",
    )
    fit.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="DIR",
        help="gets model/, report/, fit.yaml and the split text/; absent, empty, or of the same fit",
    )
    fit.add_argument("--quick", action="store_true", help="one seed, half the steps, 100 test sentences")
    fit.add_argument("--plan", action="store_true", help="split, measure and show the plan; train nothing")
    fit.set_defaults(command=run_fit)


def run_fit(arguments: argparse.Namespace) -> None:
    local = local_model(arguments.model)
    # These take seconds to load.
    from subgraft.experiments.fit.base_model import BaseModelFacts
    from subgraft.experiments.fit.session import Asked, Fit

    asked = Asked(
        model=BaseModelFacts.find(arguments.model, local),
        pairs=tuple(arguments.pairs),
        languages=arguments.languages,
        out=arguments.out,
        quick=arguments.quick,
        text=tuple(arguments.text),
    )
    Fit(asked, console()).run(plan_only=arguments.plan)
