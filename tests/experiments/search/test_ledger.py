"""What is known of a search's trials after any ending."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from subgraft.experiments.search.trial_results import Ledger, TrialResult, unfinished_trials

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
