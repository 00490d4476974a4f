"""Steps are identified by what they make, not by how or where."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subgraft.orchestration.store.step import Step, canonical_json, flatten, in_order, sha256_of
from subgraft.training.context import Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing


class ToyStage(Stage):
    size: int = 10
    text: str = "größer"
    rate: float = 0.1


CORPUS = ToyKind("corpus", 1, nothing)
VOCABULARY = ToyKind("vocabulary", 1, nothing)


def chain(size: int = 10) -> Step:
    corpus = Step(CORPUS.of(ToyStage(size=size)), "everyday")
    return Step(VOCABULARY.of(ToyStage()), "vocabulary of everyday", {"corpus": corpus})


def test_a_fingerprint_is_that_of_the_written_definition() -> None:
    step = chain()
    corpus = step.inputs["corpus"]
    recipe: dict[str, Json] = {"size": 10, "text": "größer", "rate": 0.1}
    inner = sha256_of({"stage": "corpus", "revision": 1, "recipe": recipe, "inputs": {}})
    assert corpus.fingerprint == inner
    outer: dict[str, Json] = {"stage": "vocabulary", "revision": 1, "recipe": recipe, "inputs": {"corpus": inner}}
    assert step.fingerprint == sha256_of(outer)


def test_a_fingerprint_is_the_same_in_another_process() -> None:
    program = (
        "from subgraft.orchestration.store.step import Step; from subgraft.training.stage import Stage\n"
        "class Corpus(Stage):\n    stage_name = 'corpus'\n    revision = 1\n"
        "    size: int = 10\n    text: str = 'größer'\n    rate: float = 0.1\n"
        "print(Step(Corpus(), 'other name').fingerprint)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == chain().inputs["corpus"].fingerprint


def test_what_counts_and_what_does_not() -> None:
    step = chain()
    assert replace(step, name="another", labels={"system": "avg"}).fingerprint == step.fingerprint
    assert replace(step, stage=VOCABULARY.of(ToyStage(rate=0.2))).fingerprint != step.fingerprint
    assert replace(step, stage=replace(VOCABULARY, revision=2).of(ToyStage())).fingerprint != step.fingerprint
    assert chain(size=11).fingerprint != step.fingerprint, "a change upstream reaches everything below"


def test_steps_are_ordered_inputs_first_and_once() -> None:
    first, second = chain(), chain()
    names = [step.name for step in in_order([first, second, first.inputs["corpus"]])]
    assert names == ["everyday", "vocabulary of everyday"]


def test_flatten() -> None:
    assert flatten({"a": {"b": 1, "c": {}}, "d": [1, {"e": 2}]}) == {"a.b": 1, "a.c": {}, "d": [1, {"e": 2}]}
    assert flatten({}) == {}


def test_numbers_json_cannot_hold_are_refused() -> None:
    with pytest.raises(ValueError):
        canonical_json({"loss": float("nan")})


@given(st.dictionaries(st.text(), st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()))
def test_canonical_json_does_not_depend_on_order(value: dict[str, Json]) -> None:
    backwards = dict(reversed(value.items()))
    assert canonical_json(value) == canonical_json(backwards)
    assert json.loads(canonical_json(value)) == value
