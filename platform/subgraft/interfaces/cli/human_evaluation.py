"""subgraft judge make and score: blind sheets for people, and the scores of filled ones."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from subgraft.base.security.terminal_escaping import say
from subgraft.interfaces.cli.arguments import Commands, add_finished_run, add_out, console, selected, whole_number
from subgraft.orchestration.store.outputs import new_file, require_absent


def add_to(commands: Commands) -> None:
    group = commands.add_parser("judge", help="let people judge texts blindly").add_subparsers(required=True)
    make = group.add_parser("make", help="write sheets of the outputs of a run's systems, without the systems' names")
    add_finished_run(make)
    add_out(make, "gets the sheets; absent or empty")
    make.add_argument(
        "--key", type=Path, required=True, metavar="FILE", help="gets the systems of the texts: for you alone"
    )
    make.add_argument(
        "--system", action="append", default=[], metavar="NAME", help="a system to judge; repeatable (default: all)"
    )
    make.add_argument(
        "--items", type=whole_number(1), metavar="NUMBER", help="number of sources (default: 125, or all)"
    )
    make.add_argument(
        "--judges", type=whole_number(1, 1000), default=5, metavar="NUMBER", help="number of sheets (default: 5)"
    )
    asked = "repeatable (default: grammatical, without repetition, consistent, fits its source)"
    make.add_argument("--question", action="append", default=[], metavar="TEXT", help=asked)
    make.add_argument(
        "--most", type=whole_number(1, 1000), default=1, help="the highest answer; the lowest is 0 (default: 1)"
    )
    make.add_argument("--seed", type=whole_number(0), default=1, help="seed of sampling and shuffling (default: 1)")
    make.set_defaults(command=make_sheets)

    score = group.add_parser("score", help="compute means, intervals and agreement from filled sheets")
    score.add_argument("key", type=Path, metavar="KEY", help="the key file that `judge make` wrote")
    score.add_argument("sheets", type=Path, nargs="+", metavar="SHEET", help="filled sheets, one for each judge")
    score.add_argument("--out", type=Path, metavar="FILE", help="write the figures as JSON too")
    score.set_defaults(command=score_sheets)


def make_sheets(arguments: argparse.Namespace) -> None:
    from subgraft.interfaces.api import human_evaluation

    options = selected(arguments, "out", "key", "most", "items", "judges", "seed")
    questions = arguments.question or human_evaluation.QUESTIONS
    key = human_evaluation.make_sheets(
        arguments.run, arguments.overrides, systems=arguments.system, questions=questions, **options
    )
    say(f"{arguments.judges} sheets of {len(key.texts)} texts written to {arguments.out}")
    say(f"their key, which no judge may see: {arguments.key}")


def score_sheets(arguments: argparse.Namespace) -> None:
    from subgraft.interfaces.api import human_evaluation

    if arguments.out is not None:
        require_absent(arguments.out)
    ratings = human_evaluation.score_sheets(arguments.key, arguments.sheets)
    console().print(ratings.table())
    if arguments.out is not None:
        with new_file(arguments.out) as out:
            out.write_text(json.dumps(ratings.as_json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
