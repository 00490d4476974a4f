"""A fit's estimate of its time: its parts, their measurement, and its lines on a busy machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.fit.duration import (
    RUN_SECONDS,
    START_SECONDS,
    STEP_SECONDS,
    Costs,
    ExpectedTime,
    expected,
    measure_costs,
)
from subgraft.experiments.session import Session
from subgraft.interfaces.cli import main
from toys import english, english_tokenizer, german, german_tokenizer, marian

HOUR = 3600.0
FREE = Costs(checkpoint=0.0, preparation=0.0, update=0.0, dev=0.0, test=0.0, dev_segments=50, test_segments=50)


def test_on_an_idle_machine_no_slowdown_is_reported() -> None:
    assert ExpectedTime(0.2 * HOUR).describe(6, 2, quick=False) == [
        "6 trainings with dev scores, and then translations of the test set: about 12 min 00 s"
    ]


def test_a_busy_machine_is_reported_with_what_an_idle_one_takes_and_a_smaller_budget() -> None:
    first, busy, less = ExpectedTime(0.9 * HOUR, slowdown=3.0).describe(6, 2, quick=False)
    assert "54 min 00 s" in first
    assert "the machine is busy (load " in busy and "on 2 cores" in busy and "3.0 times slower" in busy
    assert busy.endswith("about 18 min 00 s")
    assert "a quick fit" in less and less.endswith("about 9 min 00 s"), "one of three seeds, half the updates"
    *_, less = ExpectedTime(0.9 * HOUR, slowdown=3.0).describe(2, 2, quick=True)
    assert "finetune.max_steps" in less and "quick" not in less


def test_a_long_fit_offers_a_smaller_budget_too() -> None:
    assert len(ExpectedTime(2 * HOUR).describe(6, 2, quick=False)) == 2


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A quick fit that is planned: two trainings, each with five dev scores."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    marian().save_pretrained(tmp_path / "model")
    english_tokenizer().save(tmp_path / "model" / "encoder")
    german_tokenizer().save(tmp_path / "model" / "decoder")
    for name, lines in (("text.en", english(400, 5)), ("text.de", german(400, 5))):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    fit = ["fit", "model", "--pairs", "text.en", "text.de", "--languages", "en-de", "--out", "fitted"]
    assert main([*fit, "--quick", "--plan"]) == 0
    out = tmp_path / "fitted"
    return Session(load(out / "fit.yaml", Experiment), out)


def test_every_part_of_a_fit_counts(session: Session) -> None:
    plan, finetune = session.plan(), session.experiment.finetune
    runtime = session.experiment.runtime

    def seconds(costs: Costs, cores: int = 1) -> float:
        return expected(plan, costs, session.store, runtime.model_copy(update={"cpus_per_step": 1}), cores).seconds

    # In one process: a corpus, a vocabulary, a comparison, a report, and a transfer, which takes as long as these.
    bare = seconds(FREE)
    assert bare == pytest.approx(RUN_SECONDS + START_SECONDS + 5 * STEP_SECONDS)
    assert finetune.max_steps == 120 and len(finetune.evaluate_at) == 4
    assert seconds(FREE._replace(update=1.0)) - bare == pytest.approx(2 * 120)
    assert seconds(FREE._replace(dev=1.0)) - bare == pytest.approx(2 * 5 * 50), "at the start and at four steps"
    assert seconds(FREE._replace(test=1.0)) - bare == pytest.approx(2 * (50 + 2 * 32)), "warmed up, and timed once"
    assert seconds(FREE._replace(checkpoint=1.0, preparation=1.0)) - bare == pytest.approx(1 + 2)
    trained = FREE._replace(update=1.0)
    part = expected(plan, trained, session.store, runtime, 1, finetuned=0.25).seconds
    assert part - expected(plan, trained, session.store, runtime, 1, finetuned=0.0).seconds == pytest.approx(60)
    assert seconds(FREE._replace(update=1.0), cores=2) - bare == pytest.approx(120, rel=0.1), "at the same time"
    assert seconds(FREE._replace(contention=2.0)) == pytest.approx(2 * bare)


def test_costs_are_measured_by_the_plan_s_own_steps_and_nothing_stays(session: Session, tmp_path: Path) -> None:
    runtime, place = session.experiment.runtime, tmp_path / "place"
    place.mkdir()
    costs = measure_costs(session.plan(), session.store, runtime, 2, 10_000, place)
    assert costs is not None and (costs.dev_segments, costs.test_segments) == (50, 50)
    assert min(costs.checkpoint, costs.update, costs.dev, costs.test) > 0 and costs.contention >= 1
    assert not list(place.iterdir()) and not (tmp_path / "home" / "store").exists()
