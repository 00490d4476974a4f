"""The records of trials, whichever way a search ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from small_searches import searchable
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.recorder import Recorder
from subgraft.experiments.search.space import trial_steps
from subgraft.experiments.search.trial_results import Ledger, TrialResult, Value, unfinished_trials
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.server import Server
from subgraft.orchestration.tracking.tracker import Tracker

VALUES: Mapping[str, Value] = {"initialiser": "patt", "kd_weight": 0.25, "vocabulary_size": 70}


def test_what_two_trials_share_is_one_of_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the second begins when the first has made it and is not done."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    config = searchable(tmp_path)
    store, pipeline = Store(tmp_path / "home"), Pipeline(load(config, Experiment), tmp_path)
    tracker, ledger = Tracker(store, "tiny", print), Ledger(tmp_path / "trials.jsonl")
    recorder = Recorder(pipeline, store, ledger, tracker, print, lambda trials: None)
    first = trial_steps(pipeline, TrialResult(1, VALUES))
    before, later = in_order(first.targets)[0], pipeline.vocabularies.downstream["decoder"]
    store.publish(before, lambda out: {})
    recorder.begin(1, VALUES)
    store.publish(later, lambda out: {})
    recorder.begin(2, {**VALUES, "kd_weight": 0.75})
    recorder.end(1, "failed", {}, "it died")
    recorder.end(2, "failed", {}, "it died")
    tracker.close()
    assert [list(trial.made) for trial in recorder.trials.values()] == [[later.name], []]
    assert [trial.shared for trial in recorder.trials.values()] == [1, 2]


def test_a_search_that_is_cut_short_leaves_no_trial_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    config = searchable(tmp_path)
    store, said, shown = Store(tmp_path / "home"), list[str](), list[Iterable[TrialResult]]()
    tracker, ledger = Tracker(store, "tiny", said.append), Ledger(tmp_path / "trials.jsonl")
    pipeline = Pipeline(load(config, Experiment), tmp_path)
    recorder = Recorder(pipeline, store, ledger, tracker, said.append, shown.append)
    recorder.begin(1, VALUES)
    recorder.end(1, "refused", {}, "too large\n  choose less")
    recorder.begin(2, VALUES)
    recorder.evaluated(2, 1, 12.5)
    recorder.leave()
    assert tracker.close("KILLED")
    server = Server(store.home)
    (parent,) = server.recent(2)
    runs = {child.name: server.client.get_run(child.id) for child in server.children(parent)}
    assert {name: run.info.status for name, run in runs.items()} == {"trial-1": "FAILED", "trial-2": "KILLED"}
    assert runs["trial-1"].data.tags["error"].startswith("too large")
    assert runs["trial-2"].data.metrics["best_dev_bleu"] == 12.5
    assert runs["trial-2"].data.params["kd_weight"] == "0.25"
    assert [trial.number for trial in unfinished_trials(ledger.trials())] == [2]
    assert len(shown) == 3 and said[-1] == "[running]  trial-2: dev BLEU 12.50 after evaluation 1"
