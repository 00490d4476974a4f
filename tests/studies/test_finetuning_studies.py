"""Studies of finetunings in a store: curves over a setting, maps of few pairs and of areas, rules of selection.

All of them read one store, in which the model is pretrained once; each has an experiment that finetunes it in its way.
"""

from __future__ import annotations

import io
import json
import math
import shlex
from pathlib import Path

import pytest
from PIL import Image

import area_under_curve
import curves
import few_pairs
import selection
from regime_map import as_markdown
from small_experiments import TINY, finish_steps, planned, tiny, written
from subgraft.experiments.steps.system import SystemSteps
from subgraft.training.progress import SELECTIONS

PRETRAIN = "{epochs: 1, batch_size: 500, precision: fp32, dev_sentences: 2}"
SHORT = "batch_size: 500, precision: fp32, dev_sentences: 2"
KEY = "finetune.max_train_examples"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the corpora, with the store of all experiments."""
    return written(tmp_path_factory.mktemp("studies"), TINY).parent


@pytest.fixture
def place(shared: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUBGRAFT_HOME", str(shared / "home"))
    return shared


def configured(place: Path, name: str, **sections: str) -> Path:
    path = place / f"{name}.yaml"
    path.write_text(tiny(pretrain=PRETRAIN, **sections))
    return path


def systems_of(config: Path, *changes: str) -> tuple[SystemSteps, ...]:
    return tuple(planned(config, *changes).systems)


def test_a_level_curve_has_its_level_and_every_doubling_counts_as_much() -> None:
    area = area_under_curve.area
    assert area([(0, 2.0), (25, 2.0), (1600, 2.0)]) == pytest.approx(2.0)
    assert area([(0, 0.0), (7, 3.0)]) == pytest.approx(1.5)
    # Between 1 + step = 1 and 64 there are six doublings: one of them falls, then nothing changes.
    assert area([(0, 1.0), (1, 0.0), (63, 0.0)]) == pytest.approx(1 / 12)
    with pytest.raises(ValueError, match="one step"):
        area([(0, 1.0)])


def test_a_map_of_areas_has_the_finetunings_that_were_done(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(place, "areas", finetune=f"{{epochs: null, max_steps: 5, evaluate_at: [1, 3], {SHORT}}}")
    settings = ["--pairs", "20", "40", "--table-rates", "0", "4e-3", "--out", str(tmp_path / "out")]
    assert area_under_curve.main([str(config), *settings]) == 2
    assert "none of these finetunings" in capsys.readouterr().err and not (tmp_path / "out").exists()
    for pairs, rate in ((20, 0), (40, 4e-3)):
        systems = systems_of(config, f"{KEY}={pairs}", f"finetune.embedding_learning_rate={rate}")
        store = finish_steps([system.finetune for system in systems], place)
    assert area_under_curve.main([str(config), *settings]) == 0
    written_cells = json.loads((tmp_path / "out" / "map.json").read_text())
    assert [(cell["system"], cell["pairs"], cell["embedding_learning_rate"]) for cell in written_cells] == [
        (system, pairs, rate) for pairs, rate in ((20, 0), (40, 0.004)) for system in ("plain", "mean")
    ]
    _check_area(store.path(systems[1].finetune) / "curve.json", written_cells[3]["values"]["bits_per_character"])
    assert (tmp_path / "out" / "map.png").read_bytes().startswith(b"\x89PNG")
    table, measures = (tmp_path / "out" / "table.md").read_text(), area_under_curve.MEASURES
    cells = area_under_curve.cells(config, [], [20, 40], [0, 4e-3])
    assert capsys.readouterr().out == table == as_markdown(cells, measures)
    assert table.count("20 pairs, frozen") == len(measures) and "40 pairs, 0.004" in table and "**" in table


def _check_area(path: Path, expected: float) -> None:
    """By hand: evaluated at the beginning, after one and three updates, and at the end."""
    curve = json.loads(path.read_text())
    assert [point["step"] for point in curve] == [0, 1, 3, 5]
    bits = [point["values"]["bits_per_character"] for point in curve]
    widths = [math.log(2), math.log(4 / 2), math.log(6 / 4)]
    total = sum(width * (bits[at] + bits[at + 1]) / 2 for at, width in enumerate(widths))
    assert expected == pytest.approx(total / math.log(6))


def test_curves_have_the_evaluations_and_print_the_commands_that_make_them(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = "[{name: plain, vocabulary: upstream}]"
    config = configured(place, "curves", finetune=f"{{max_steps: 2, {SHORT}}}", systems=plain)
    asked, out = [str(config), KEY, "20", "40", "60"], tmp_path / "out"
    assert curves.main([*asked, "--out", str(out)]) == 2
    assert "none of these systems" in capsys.readouterr().err
    assert curves.main([*asked, "--change", "seeds=[1]", "--commands"]) == 0
    commands = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    assert [command[-1] for command in commands] == [f"{KEY}={count}" for count in (20, 40, 60)]
    reached = []
    for command in (commands[0], commands[2]):
        (steps,) = systems_of(config, *command[3:])
        folder = finish_steps([steps.evaluate], place).path(steps.evaluate)
        reached.append(json.loads((folder / "evaluation.json").read_text())["scores"]["BLEU"]["value"])
    assert curves.main([*asked, "--change", "seeds=[1]", "--out", str(out)]) == 0
    few, many = (f"{value:.2f}" for value in reached)
    assert f"| plain on en-de | {few} | – | {many} |" in capsys.readouterr().out
    assert Image.open(io.BytesIO((out / "curves.png").read_bytes())).width > 1000
    lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert [(line["value"], line["seeds"]) for line in lines] == [("20", 1), ("60", 1)]


def test_values_other_than_numbers_are_evenly_spaced() -> None:
    measured = [curves.Result(value, "plain", "de-en", 2, score) for value, score in (("two", 3.0), ("seven", 9.0))]
    one, two = (curves.draw(some, "upstream.corpus", ["two", "seven"]) for some in (measured, measured[:1]))
    assert one != two


def test_a_map_of_few_pairs_has_the_systems_that_were_evaluated(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    corpora = "{upstream: {folder: upstream}, downstream: {folder: downstream, limit: {train: 60}}}"
    config = configured(place, "few", finetune=f"{{max_steps: 2, select: chrf, {SHORT}}}", corpora=corpora)
    asked = ["--corpus", "downstream", "--pairs", "40", "60", "--table-rates", "0", "--out", str(tmp_path / "out")]
    assert few_pairs.main([str(config), *asked]) == 2
    assert "none of these systems" in capsys.readouterr().err
    systems = systems_of(config, "corpora.downstream.limit.train=40", "finetune.embedding_learning_rate=0")
    store = finish_steps([steps.evaluate for steps in systems], place)
    assert few_pairs.main([str(config), *asked]) == 0
    table = capsys.readouterr().out
    assert table.count("40 pairs, frozen") == len(few_pairs.MEASURES) and "60 pairs" not in table
    cells = json.loads((tmp_path / "out" / "map.json").read_text())
    assert [(cell["system"], cell["pairs"], cell["seeds"]) for cell in cells] == [("plain", 40, 1), ("mean", 40, 1)]
    evaluation = json.loads((store.path(systems[1].evaluate) / "evaluation.json").read_text())
    assert cells[1]["values"]["chrF"] == evaluation["scores"]["chrF"]["value"]


def test_each_rule_of_selection_keeps_what_it_goes_by() -> None:
    points = [
        {"step": 0.0, "bits_per_character": 3.0, "bleu": 1.0, "chrf": 5.0},
        {"step": 9.0, "bits_per_character": 2.0, "bleu": 3.0, "chrf": 6.0},
        {"step": 18.0, "bits_per_character": 2.5, "bleu": 2.0, "chrf": 7.0},
    ]
    steps = {rule: point["step"] for rule, point in selection.selected(points).items()}
    assert steps == {"bleu": 9, "chrf": 18, "likelihood": 9, "last": 18}


def test_dev_scores_of_a_selection_are_those_of_the_finetuning_itself(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(place, "selection", finetune=f"{{max_steps: 3, evaluate_at: [1, 2], {SHORT}}}")
    asked = [str(config), "--test-sentences", "3", "--out", str(tmp_path / "curves.json")]
    with monkeypatch.context() as elsewhere:  # it needs the inputs of the finetuning, which other studies have made
        elsewhere.setenv("SUBGRAFT_HOME", str(tmp_path / "empty"))
        assert selection.main(asked) == 2
    assert "not in the store" in capsys.readouterr().err
    systems = systems_of(config)
    store = finish_steps([steps.finetune for steps in systems], place)
    assert selection.main(asked) == 0
    table = capsys.readouterr().out
    assert all(f"{rule}: step" in table for rule in SELECTIONS) and "mean seed 1" in table
    scored = json.loads((tmp_path / "curves.json").read_text())
    for steps in systems:
        ran = json.loads((store.path(steps.finetune) / "curve.json").read_text())
        ours = scored[f"{steps.system.name} seed 1"]
        assert [point["step"] for point in ours] == [0, 1, 2, 3]
        assert [point["bits_per_character"] for point in ours] == [p["values"]["bits_per_character"] for p in ran]
        assert all("test_chrf" in point for point in ours)
