"""subgraft schema: the JSON Schema of configurations, for editors."""

from __future__ import annotations

import argparse
import json
import sys

from subgraft.interfaces.cli.output import Commands


def add_to(commands: Commands) -> None:
    schema = commands.add_parser("schema", help="print the JSON Schema of configurations, for editors that check YAML")
    kinds = "of the configurations that `run` reads (experiment) or that `allocate` reads (allocation)"
    schema.add_argument("kind", nargs="?", choices=("experiment", "allocation"), default="experiment", help=kinds)
    schema.set_defaults(command=print_schema)


def print_schema(arguments: argparse.Namespace) -> None:
    from subgraft.config.allocation import Allocation
    from subgraft.config.experiment import Experiment
    from subgraft.config.json_schema import json_schema

    made = json_schema(Experiment if arguments.kind == "experiment" else Allocation)
    sys.stdout.write(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
