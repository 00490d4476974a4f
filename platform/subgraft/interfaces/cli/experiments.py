"""subgraft run, plan, compare, report, tracking, search and schema: experiments and their configurations."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from subgraft.base.entries import imported
from subgraft.base.errors import OperationalError
from subgraft.base.security.terminal_escaping import say
from subgraft.interfaces.api import experiments
from subgraft.interfaces.cli.arguments import (
    Commands,
    add_config,
    add_finished_run,
    add_json,
    add_out,
    console,
    print_json,
    whole_number,
)
from subgraft.orchestration.store.home import default_home
from subgraft.orchestration.store.outputs import new_directory, new_file
from subgraft.orchestration.tracking.server import recording_server, require_recorded

if TYPE_CHECKING:
    from subgraft.base.terminal import Table
    from subgraft.experiments.search.session import SearchOutcome
    from subgraft.experiments.search.trial_results import SearchData, TrialResult

# The settings of each kind of configuration.
KINDS = {
    "experiment": "subgraft.config.experiment:Experiment",
    "allocation": "subgraft.contrib.allocation.settings:Allocation",
}


def add_to(commands: Commands) -> None:
    for name, command, description in (
        ("run", run, "run an experiment; finished steps are not repeated"),
        ("plan", plan, "show the steps of a run, and why each would run"),
    ):
        parser = commands.add_parser(name, help=description)
        add_config(parser, "a YAML file, as in configs/", "as in finetune.epochs=5")
        parser.add_argument(
            "--verify", action="store_true", help="read all files again, also those that have not changed"
        )
        parser.set_defaults(command=command, json=False, resumes=True)
        if name == "plan":
            add_json(parser)
        else:
            parser.add_argument("--plan", action="store_true", help="only show the plan")
            stop = "end a training after UPDATES, or at its last checkpoint, and go on with the result"
            parser.add_argument("--stop-after", metavar="SECTION[=UPDATES]", help=f"{stop}: pretrain, finetune, …")
            parser.add_argument("--address", help="address of a Ray cluster (default: a private Ray on this machine)")

    compare = commands.add_parser("compare", help="compare runs in a table")
    compare.add_argument("runs", nargs="+", metavar="RUN", help="a run's name or id")
    form = compare.add_mutually_exclusive_group()
    form.add_argument("--csv", type=Path, metavar="FILE", help="write the table as CSV; - for standard output")
    add_json(form)
    compare.set_defaults(command=compare_runs)

    report = commands.add_parser("report", help="copy the report of a run or of an experiment")
    add_finished_run(report)
    add_out(report)
    report.set_defaults(command=copy_report)

    tracking = commands.add_parser("tracking", help="show this store's MLflow page, on this machine, for you alone")
    port = "0 for any free port (default 5000)"
    tracking.add_argument("--port", type=whole_number(0, 65535), default=5000, help=port)
    tracking.set_defaults(command=serve_tracking)

    parser = commands.add_parser(
        "search", help="search for hyperparameters of systems; finished trials are not repeated"
    )
    add_config(parser, "a YAML file with a section `search`", "as in search.trials=40")
    parser.add_argument("--address", help="address of a Ray cluster (default: a private Ray on this machine)")
    parser.set_defaults(command=search, resumes=True)

    schema = commands.add_parser("schema", help="print the JSON Schema of configurations, for editors that check YAML")
    kinds = "the kind of configuration: of `run` (experiment, the default) or of `vocab allocate` (allocation)"
    schema.add_argument("kind", nargs="?", choices=tuple(KINDS), default="experiment", help=kinds)
    schema.set_defaults(command=print_schema)


def run(arguments: argparse.Namespace) -> None:
    if arguments.stop_after:
        arguments.overrides = experiments.stopped_after(arguments.config, arguments.overrides, arguments.stop_after)
        say(f"ended early  {arguments.overrides[-1]}", to=sys.stderr)
    if arguments.plan:
        plan(arguments)
        return
    if arguments.verify:
        experiments.session_of(arguments.config, arguments.overrides).store.forget_digests()
    finished = experiments.run(arguments.config, arguments.overrides, address=arguments.address)
    console().print(finished.table)
    say(f"\n{finished.answer}\n")
    console().print(f"report       {finished.report}")
    for purpose, command in finished.commands:
        console().print(f"{purpose:12} {command}")


def plan(arguments: argparse.Namespace) -> None:
    from subgraft.orchestration.execution.plan import describe, table

    session = experiments.session_of(arguments.config, arguments.overrides)
    if arguments.verify:
        session.store.forget_digests()
    planned = session.plan()
    if not arguments.json:
        console().print(table(planned))
        if (needed := session.estimates(planned)) is not None:
            console().print()
            console().print(needed)
    notes = [*session.empty_store(), *session.monolingual_text(), *session.unknown_tokens(), *session.engines()]
    warnings = [*session.missing_devices(), *session.oversized_vocabularies(planned)]
    warnings += [*session.lost_lines(), *session.warnings()]
    if arguments.json:
        steps = [describe(entry) for entry in planned.entries]
        print_json(steps=steps, notes=notes, warnings=warnings)
        return
    for line in (*notes, *(f"warning: {line}" for line in warnings)):
        console().print(f"\n{line}")


def compare_runs(arguments: argparse.Namespace) -> None:
    from subgraft.orchestration.tracking.compare import SINGLE, compare, significance, table, write_csv

    with recording_server() as server:
        systems = compare(server, arguments.runs)
        tests = [significance(default_home(), server.find(run)) for run in arguments.runs]
    if arguments.json:
        print_json(systems=systems)
    elif arguments.csv is None:
        numbers = [f"run {number}: " if len(tests) > 1 else "" for number in range(1, len(tests) + 1)]
        lines = [f"{number}{line}" for number, each in zip(numbers, tests, strict=True) for line in each]
        console().print(table(systems, console().width, lines or [SINGLE]))
    elif str(arguments.csv) == "-":
        write_csv(systems, sys.stdout)
    else:
        with new_file(arguments.csv) as out, out.open("w", encoding="utf-8", newline="") as file:
            write_csv(systems, file)
        say(f"{len(systems)} lines written to {arguments.csv}")


def copy_report(arguments: argparse.Namespace) -> None:
    source = experiments.report_of(arguments.run, arguments.overrides)
    with new_directory(arguments.out) as out:
        shutil.copytree(source, out, dirs_exist_ok=True)
    say(f"{arguments.out / 'report.html'}")


def serve_tracking(arguments: argparse.Namespace) -> None:
    from subgraft.orchestration.tracking.page import serve

    require_recorded()
    serve(default_home(), arguments.port, say)


def search(arguments: argparse.Namespace) -> None:
    """Raises OperationalError if trials failed, after the others are reported."""
    experiment = experiments.load_experiment(arguments.config, arguments.overrides)
    from subgraft.experiments.search.session import sessions  # slow; errors in the configuration are reported before

    searches = sessions(experiment, arguments.config.absolute().parent)
    systems = ""
    failed: list[TrialResult] = []
    for number, session in enumerate(searches, 1):
        if len(searches) > 1:
            console().print(f"system {session.system}, {number} of {len(searches)}")
        result = session.run(console(), arguments.address)
        _show_result(result)
        systems += result.systems
        failed += result.failed
    if systems:
        console().print(f"systems:\n{systems}")
    if failed:
        problem = f"{len(failed)} trials failed; {failed[0].name}: {failed[0].said}"
        raise OperationalError(problem, hint="Run the same command again: it repeats only these.")


def _show_result(result: SearchOutcome) -> None:
    """Print the best trials of a search, and its page."""
    data = result.page.data(result.trials)
    console().print(_best(data))
    console().print(f"\npage         {result.page.path}")
    for command in data.commands:
        console().print(f"{command.purpose.partition(':')[0]:12} {command.line}")
    console().print()


def _best(data: SearchData) -> Table:
    from subgraft.base.terminal import Table
    from subgraft.experiments.search.trial_results import best

    table = Table(box=None, pad_edge=False)
    for heading in ("trial", *data.parameters, *data.objectives):
        table.add_column(heading, justify="right")
    for trial in best(data.trials, data.objectives):
        values = [trial.values.get(name, "–") for name in data.parameters]
        scores = [f"{trial.objectives[name]:.2f}" for name in data.objectives]
        table.add_row(str(trial.number), *map(str, values), *scores)
    return table


def print_schema(arguments: argparse.Namespace) -> None:
    from subgraft.config.experiment.json_schema import json_schema

    schema = json_schema(imported(KINDS[arguments.kind]))
    sys.stdout.write(json.dumps(schema, indent=1, ensure_ascii=False) + "\n")
