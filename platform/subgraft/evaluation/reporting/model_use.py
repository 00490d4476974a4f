"""The command by which a reader uses a model that an experiment has made."""

from __future__ import annotations

from typing import NamedTuple

from subgraft.config.corpora import UNDETERMINED


class ModelUse(NamedTuple):
    """verb: what the model does.  command: by which it does so."""

    verb: str
    command: str


def use_of(model: str, languages: str, *, predicts: bool, file: bool = False, subgraft: str = "subgraft") -> ModelUse:
    """How to use a model.

    Args:
        model: A directory, or the name of a registered one.
        languages: As in en-fr; those of a text whose language is not known are left out.
        predicts: Whether it has a head that predicts labels.
        file: Whether the input is a file, and not one text.
        subgraft: The command, after variables of the environment.
    """
    if predicts:
        return ModelUse("predict", f"{subgraft} predict {model} --input FILE")
    generate = f"{subgraft} generate --model {model}"
    read = f"{generate} --input FILE" if file else f'echo "…" | {generate}'
    return ModelUse("generate", read if UNDETERMINED in languages.split("-") else f"{read} --languages {languages}")
