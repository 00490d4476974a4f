"""Which texts a blind sheet has, and how its cells are written."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.evaluation.human_evaluation.sheet import REFERENCE, Form, Material, Outputs, blind, write_sheets

SOURCES = [f"source {number}" for number in range(40)]
FORM = Form(("=good", "clear"), 3)


def _material(*names: str, formula: str = "") -> Material:
    outputs = [
        Outputs(name, seed, [f"{formula}{name} {seed} {source}" for source in SOURCES])
        for name in names
        for seed in (1, 2)
    ]
    return Material("run", SOURCES, [f"people on {source}" for source in SOURCES], outputs)


def test_every_system_has_a_text_for_every_source_of_any_of_its_seeds() -> None:
    key, shown = blind(_material("ours", "theirs"), FORM, 20, seed=1)
    assert len(shown) == len(key.texts) == 60 and key.systems == ("ours", "theirs", REFERENCE)
    items = {name: {by.item for by in key.texts.values() if by.system == name} for name in key.systems}
    assert len(items["ours"]) == 20 and items["ours"] == items["theirs"] == items[REFERENCE]
    assert {by.seed for by in key.texts.values() if by.system == "ours"} == {1, 2}
    for name, (source, text) in shown.items():
        by = key.texts[name]
        assert source == SOURCES[by.item]
        assert text == (f"people on {source}" if by.system == REFERENCE else f"{by.system} {by.seed} {source}")


def test_keys_say_nothing_of_systems_and_sources() -> None:
    key, _ = blind(_material("ours", "theirs"), FORM, 40, seed=1)
    order = sorted(key.texts)
    halves = [sum(key.texts[name].system == "ours" for name in half) for half in (order[:60], order[60:])]
    assert all(10 <= half <= 30 for half in halves), "sorting by key does not sort by system"


@pytest.mark.parametrize("formula", ["=", "+", "-", "@", "\t", "\r"])
def test_no_cell_is_a_formula(formula: str, tmp_path: Path) -> None:
    key, shown = blind(_material("ours", formula=formula), FORM, 5, seed=1)
    write_sheets(tmp_path, key, shown, judges=1)
    with (tmp_path / "judge-1.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file))
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for row in rows for cell in row)
    assert rows[0] == ["key", "source", "text", "'=good", "clear"]
    assert any(row[2].startswith(f"'{formula}ours") for row in rows)


def test_as_many_items_as_there_are_and_125_at_most() -> None:
    assert len(blind(_material("ours"), FORM, None, seed=1)[1]) == 80
    longer = Material("run", SOURCES * 4, SOURCES * 4, [Outputs("ours", 1, SOURCES * 4)])
    assert len(blind(longer, FORM, None, seed=1)[1]) == 250


def test_what_would_be_mixed_up_is_refused() -> None:
    with pytest.raises(UserError, match="a system is named 'reference text'"):
        blind(_material(REFERENCE), FORM, 2, seed=1)
    with pytest.raises(UserError, match="a question is empty"):
        Form((" ",), 1)
