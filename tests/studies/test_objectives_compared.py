"""BART's table in small: every row on every task is an experiment, and the rows differ in what they should."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

import objectives_compared as study
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.model_shapes import TwoStackSettings
from subgraft.config.settings_base import SideName

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "bart.yaml"


@pytest.mark.parametrize("row", study.ROWS)
def test_every_row_is_an_experiment_on_every_task_with_one_pretraining(row: str) -> None:
    experiments = [load(CONFIG, Experiment, study.overrides(row, task)) for one, task in study.runs([row]) if one]
    assert len(experiments) == (3 if study.ROWS[row].writes else 2)
    assert len({each.name for each in experiments}) == len(experiments)
    first = experiments[0]
    for each in experiments:
        assert (each.upstream, each.model, each.pretrain) == (first.upstream, first.model, first.pretrain)
        assert [system.name for system in each.systems] == [study.PRETRAINED, study.UNTRAINED]


def test_all_rows_have_the_same_text_updates_and_size() -> None:
    experiments = [load(CONFIG, Experiment, study.overrides(row, "answers")) for row in study.ROWS]
    first = experiments[0]
    assert all(
        each.pretrain == first.pretrain and each.upstream.corpus == first.upstream.corpus for each in experiments
    )
    assert {(each.model.d_model, each.upstream.vocabulary.size) for each in experiments} == {(192, 8000)}
    for each in experiments:
        sides: tuple[SideName, ...] = (
            ("encoder", "decoder") if isinstance(each.model, TwoStackSettings) else ("decoder",)
        )
        assert sum(each.model.depth(side) for side in sides) == 4


@pytest.mark.data
def test_commands_are_runs_that_load(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mirror: Path
) -> None:
    monkeypatch.setenv("SUBGRAFT_DATA", str(mirror))
    assert study.main([str(CONFIG), "seeds=[3]", "--commands", "--rows", "infilling", "language model"]) == 0
    commands = [shlex.split(line) for line in capsys.readouterr().out.splitlines()]
    assert len(commands) == 5
    for subgraft, run, config, *changes in commands:
        assert (subgraft, run) == ("subgraft", "run")
        assert load(Path(config), Experiment, changes).seeds == (3,)


def test_the_table_has_a_row_for_each_start_and_a_dash_for_what_is_not_there() -> None:
    finished = [
        study.Result("infilling", "question kind", study.PRETRAINED, {"accuracy": [50.0, 60.0]}),
        study.Result("infilling", "questions", study.PRETRAINED, {"BLEU": [3.0], "ROUGE-L": [21.0]}),
        study.Result("masked", "answers", study.UNTRAINED, {"token F1": [9.0]}),
    ]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in study.table(finished).splitlines()]
    assert rows[0][1:] == ["question kind: accuracy", "answers: F1", "questions: BLEU", "questions: ROUGE-L"]
    assert rows[2] == ["infilling", "55.0 ± 63.5", "–", "3.0", "21.0"]
    assert rows[3] == ["masked's model, untrained", "–", "9.0", "–", "–"]
