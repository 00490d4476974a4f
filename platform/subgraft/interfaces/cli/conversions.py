"""subgraft convert: a published model whose weights are in PyTorch's own form, as safetensors."""

from __future__ import annotations

import argparse
from pathlib import Path

from subgraft.base.terminal_escaping import say
from subgraft.interfaces.cli.output import Commands
from subgraft.orchestration.store.outputs import new_directory

SHOWN = 3


def add_to(commands: Commands) -> None:
    convert = commands.add_parser("convert", help="make safetensors of a published model's pytorch_model.bin")
    convert.add_argument("model", metavar="MODEL", help="a directory, or an id on the hub")
    convert.add_argument("--revision", metavar="COMMIT", help="of the hub's repository (default: its newest)")
    convert.add_argument("--out", type=Path, required=True, metavar="DIR", help="absent or empty")
    convert.set_defaults(command=convert_model)


def convert_model(arguments: argparse.Namespace) -> None:
    from subgraft.modeling.conversion import convert
    from subgraft.modeling.hub import TORCH_FILES, resolve_model, with_revision

    model = with_revision(arguments.model, arguments.revision)
    with new_directory(arguments.out) as out:
        found = convert(resolve_model(model, TORCH_FILES), out)
    say(f"{found.parameters:,} parameters written to {arguments.out} as safetensors")
    if found.left_out:
        names = ", ".join(found.left_out[:SHOWN]) + (", …" if len(found.left_out) > SHOWN else "")
        say(f"left out, since this model has no place for them: {len(found.left_out)} tensors ({names})")
