"""What lies in a home: records, logs, outboxes and ledgers that were damaged, or are of somebody else."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzzing import answers, any_value, damaged, evil, fuzzed, written
from subgraft.config.corpora import Languages
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.encoded import entries
from subgraft.data.text.fields import pair_fields
from subgraft.experiments.garbage_collection import surplus
from subgraft.experiments.search.trial_results import Ledger, TrialResult
from subgraft.interfaces.cli import parser
from subgraft.orchestration.store.events import EventTail
from subgraft.orchestration.store.home import write_format
from subgraft.orchestration.store.record import RECORD
from subgraft.orchestration.store.step import Step, sha256_of
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.outbox import EndRun, Outbox, SetTags, StartRun
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing

pytestmark = pytest.mark.slow

STEP = Step(ToyKind("corpus", 1, nothing).of(Stage()), "corpus [everyday]")
OPERATIONS = (
    StartRun("a", None, "demo", "name", {"b": "c"}, {"d": "1"}, 1),
    SetTags("a", {"e": "f"}),
    EndRun("a", "FINISHED", 2),
)
LOGS = [
    "".join(json.dumps({"kind": type(one).__name__, **asdict(one)}) + "\n" for one in OPERATIONS),
    '{"kind": "progress", "done": 1, "total": 2, "what": "steps", "time": 3.5}\n',
    '{"kind": "metrics", "step": 1, "values": {"loss": NaN}, "time": 3.5}\n',
    json.dumps(asdict(TrialResult(1, {"kd_weight": 0.5}, "finished", {"bleu": 3.0}, ((1, 2.0),)))) + "\n",
    '{"offset": 3, "runs": {"a": "b"}, "open": ["a"]}\n',
]


@fuzzed(1500, text=damaged(st.sampled_from(LOGS)) | any_value.map(json.dumps) | evil)
def test_a_foreign_log_is_passed_over(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "tracking"
    folder.mkdir(exist_ok=True)
    log = written(folder / "a.jsonl", f"{text}\n")
    written(folder / "a.sent", text)
    record = tmp_path / "encoded" / "a" / "record.json"
    record.parent.mkdir(parents=True, exist_ok=True)
    written(record, text)
    with answers():
        EventTail(log).read()
        Ledger(log).trials()
        list(entries(tmp_path / "encoded"))
        surplus(tmp_path, set())
        for outbox in Outbox.left_behind(folder):
            outbox.read(outbox.delivered().offset)
            outbox.keep()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> str:
    store = Store(tmp_path_factory.mktemp("home"))
    store.publish(STEP, lambda out: {"size": 1, "text": "größer"})
    return (store.path(STEP) / RECORD).read_text(encoding="utf-8")


def _listed(home: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A record as the store's commands meet it; found or not, there is never a traceback."""
    monkeypatch.setenv("SUBGRAFT_HOME", str(home))
    write_format(home)
    store = Store(home, say=lambda line: None)
    directory = store.path(STEP)
    directory.mkdir(parents=True, exist_ok=True)
    written(directory / RECORD, text)
    with answers():
        list(store.records("corpus"))
        chosen = parser().parse(["store", "list"])
        chosen.command(chosen)
        surplus(home, set())
        store.find(STEP)


@fuzzed(700, data=st.data())
def test_a_damaged_record_is_put_away(
    data: st.DataObject, sound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _listed(tmp_path, monkeypatch, data.draw(damaged(st.just(sound))))


@fuzzed(700, field=st.integers(0, 12), value=any_value)
def test_a_record_of_other_types_is_put_away(
    field: int, value: Any, sound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads(sound)
    del content["record_sha256"]
    content[list(content)[field]] = value
    try:
        content["record_sha256"] = sha256_of(content)
    except ValueError:  # of an infinite number, or half a character
        content["record_sha256"] = ""
    _listed(tmp_path, monkeypatch, json.dumps(content))


@fuzzed(500, data=st.data())
def test_a_damaged_corpus_is_refused(data: st.DataObject, tmp_path: Path) -> None:
    fields = pair_fields(Languages(source="en", target="de"), two=True)
    corpus = Corpus(tmp_path, fields, False, {"train": 1}, {"train": {"read": 1, "kept": 1}}, {"any": 1})
    corpus.save()
    described = (tmp_path / "corpus.json").read_text(encoding="utf-8")
    written(tmp_path / "corpus.json", data.draw(damaged(st.just(described)) | any_value.map(json.dumps)))
    with answers():
        Corpus.open(tmp_path)
