"""Options and parameters that have the same name mean the same if they are left out."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator

import pytest

import subgraft
from subgraft.interfaces.cli import parser

# The function of each command whose options are parameters of it.
FUNCTIONS = {
    "advise": "advise",
    "evaluate": "evaluate",
    "export": "export",
    "fit": "fit",
    "generator train": "train_generator",
    "predict": "predict",
    "run": "run",
    "transfer": "transfer",
    "vocab extend": "extend",
    "vocab learn": "learn_vocabulary",
    "vocab trim": "trim",
}
# Where a command cannot know the default: `evaluate` without it takes that of its files, `fit --text` alone has fields.
DECIDED_LATER = {("evaluate", "task"), ("fit", "field")}


def commands(of: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    groups = [each.choices for each in of._actions if isinstance(each.choices, dict) and not each.option_strings]
    if not groups:
        yield name, of
    for child, command in groups[0].items() if groups else ():
        yield from commands(command, f"{name} {child}".strip())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_option_has_the_default_of_its_parameter(name: str) -> None:
    command = dict(commands(parser()))[name]
    parameters = inspect.signature(getattr(subgraft, FUNCTIONS[name])).parameters
    options = [each for each in command._actions if each.option_strings and each.dest in parameters]
    assert options
    for option in options:
        default = parameters[option.dest].default
        if option.required or default is inspect.Parameter.empty or (name, option.dest) in DECIDED_LATER:
            continue
        assert option.default == default or not (option.default or default), (option.dest, option.default, default)
