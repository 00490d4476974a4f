"""Trials of a search: what they report to Tune, and what is known after any ending."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from subgraft.config.corpora import Languages
from subgraft.config.training import FinetuneSettings
from subgraft.experiments.search.trial_results import Ledger, TrialResult, unfinished_trials
from subgraft.experiments.search.tuning import Watcher
from subgraft.orchestration.store.events import Metrics, Progress, Warned
from subgraft.orchestration.store.step import Step
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.training.stage import TrainedStage

TRAINING = FinetuneSettings(max_steps=30, batch_size=10, learning_rate=0.1, warmup_steps=1)
LANGUAGES = Languages(source="en", target="de")
TUNED = Step(FinetuneStage(languages=LANGUAGES, training=TRAINING, seed=1), "finetune")
PRETRAINED = Step(TrainedStage(training=TRAINING, seed=1), "pretrain")


def test_dev_scores_of_the_finetuning_are_reported_but_the_first_and_the_last() -> None:
    heard: list[dict[str, Any]] = []
    watcher = Watcher(heard.append)

    def scored(step: Step, at: int, bleu: float) -> None:
        watcher.progress(step, Progress(at, 30, "loss", 0.0))
        watcher.metrics(step, Metrics(at, {"train_loss": 1.0}, 0.0))
        watcher.metrics(step, Metrics(at, {"dev_bleu": bleu}, 0.0))

    for at, bleu in ((0, 1.0), (10, 5.0), (10, 5.0), (20, 4.0), (30, 9.0)):  # 10 again: after a kill
        scored(PRETRAINED, at, 50.0)
        scored(TUNED, at, bleu)
    assert heard == [{"evaluation": 1, "best_dev_bleu": 5.0}, {"evaluation": 2, "best_dev_bleu": 5.0}]


def test_warnings_are_not_evaluations_and_are_kept_for_the_end() -> None:
    heard: list[dict[str, Any]] = []
    watcher = Watcher(heard.append)
    watcher.warned(PRETRAINED, Warned("step-20 is damaged", 0.0))
    assert heard == [] and watcher.warnings == ["pretrain: step-20 is damaged"]


BEGUN = TrialResult(1, {"initialiser": "patt", "kd_weight": 0.25})
DONE = replace(BEGUN, state="finished", objectives={"dev_bleu": 12.5}, curve=((1, 10.0), (2, 12.5)), made={"a": 1.5})


def test_the_last_word_on_a_trial_counts(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "trials.jsonl")
    assert ledger.trials() == {}
    for trial in (BEGUN, replace(BEGUN, number=2), DONE, replace(BEGUN, number=3, state="failed", said="it died")):
        ledger.note(trial)
    result = Ledger(ledger.path).trials()
    assert result[1] == DONE
    assert [trial.number for trial in unfinished_trials(result)] == [2, 3]


def test_a_torn_line_is_passed_over_and_the_next_is_whole(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "trials.jsonl")
    ledger.note(DONE)
    with ledger.path.open("a") as stream:
        stream.write('{"number": 2, "values": {"ini')
    assert list(ledger.trials()) == [1]
    ledger.note(replace(BEGUN, number=3))
    assert list(ledger.trials()) == [1, 3]
