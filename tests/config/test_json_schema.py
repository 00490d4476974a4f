"""The JSON Schema accepts every configuration of this repository, and refuses mistakes that an editor can see."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from subgraft.config.experiment import Experiment
from subgraft.config.experiment.json_schema import descriptions, json_schema
from subgraft.config.settings_base import groups_in
from subgraft.config.yaml_tree import parse
from subgraft.contrib.allocation.settings import Allocation
from subgraft.interfaces.cli import main

CONFIGS = sorted((Path(__file__).resolve().parents[2] / "configs").glob("*.yaml"))


@pytest.fixture(scope="module")
def experiment() -> jsonschema.Draft202012Validator:
    schema = json_schema(Experiment)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def _read(path: Path) -> Any:
    return parse(path.read_text(encoding="utf-8"), str(path)).data


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_matches(path: Path, experiment: jsonschema.Draft202012Validator) -> None:
    allocates = path.stem == "vocap"
    validator = jsonschema.Draft202012Validator(json_schema(Allocation)) if allocates else experiment
    assert [error.message for error in validator.iter_errors(_read(path))] == []


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("finetune", "epoch"), 2, "'epoch' was unexpected"),
        (("finetune", "epochs"), "two", "'two' is not"),
        (("finetune", "learning_rate"), -1, "-1 is less than or equal to the minimum of 0"),
        (("systems", 0, "initialiser"), 3, "3 is not"),
        (("sides",), ["left"], "'left' is not one of"),
        (("languages",), None, "None is not of type 'object'"),
    ],
)
def test_mistakes_do_not_match(
    where: tuple[str | int, ...], value: object, message: str, experiment: jsonschema.Draft202012Validator
) -> None:
    data = copy.deepcopy(_read(next(path for path in CONFIGS if path.stem == "quickstart")))
    place = data
    for step in where[:-1]:
        place = place[step] if isinstance(step, int) else place.setdefault(step, {})
    place[where[-1]] = value
    errors = list(experiment.iter_errors(data))
    texts = [each.message for error in errors for each in (error, *(error.context or ()))]
    assert errors and any(message in text for text in texts), texts


def test_a_name_is_required(experiment: jsonschema.Draft202012Validator) -> None:
    data = _read(next(path for path in CONFIGS if path.stem == "quickstart"))
    del data["name"]
    assert [error.message for error in experiment.iter_errors(data)] == ["'name' is a required property"]


@pytest.mark.parametrize("settings", [Experiment, Allocation])
def test_every_setting_has_a_description(settings: type[Experiment] | type[Allocation]) -> None:
    groups, missing = [settings, *groups_in(settings)], []
    for group in groups:
        missing += [f"{group.__name__}.{name}" for name in group.model_fields if name not in descriptions(group)[1]]
        groups += [
            inner
            for field in group.model_fields.values()
            for inner in groups_in(field.annotation)
            if inner not in groups
        ]
    assert missing == []


def test_the_command_prints_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema(Experiment)
    assert main(["schema", "allocation"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "Allocation"
