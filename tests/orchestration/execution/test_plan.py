"""A plan says what will happen and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.terminal import Terminal
from subgraft.config.settings_base import Settings
from subgraft.orchestration.execution.plan import State, make_plan, table
from subgraft.orchestration.store.events import EVENTS, EventLog, Started
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing


class Inner(Settings):
    rate: float = 0.1


class ToyStage(Stage):
    size: int = 10
    inner: Inner = Inner()
    a: int = 0
    b: int = 0
    c: int = 0


CORPUS, VOCABULARY = ToyKind("corpus", 1, nothing), ToyKind("vocabulary", 1, nothing)


def vocabulary(size: int = 10, corpus: ToyStage | None = None) -> Step:
    source = Step(CORPUS.of(corpus or ToyStage()), "everyday")
    return Step(VOCABULARY.of(ToyStage(size=size)), "everyday's vocabulary", {"corpus": source})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def make(store: Store, step: Step) -> None:
    for source in step.inputs.values():
        make(store, source)
    store.publish(step, lambda out: {})


def states(store: Store, step: Step) -> list[State]:
    return [entry.state for entry in make_plan(store, [step]).entries]


def test_states(store: Store) -> None:
    step = vocabulary()
    assert states(store, step) == [State.TO_RUN, State.TO_RUN]
    store.publish(step.inputs["corpus"], lambda out: {})
    assert states(store, step) == [State.CACHED, State.TO_RUN]
    make(store, step)
    assert states(store, step) == [State.CACHED, State.CACHED]
    assert make_plan(store, [step]).to_run == ()


def test_a_missing_input_of_a_cached_step_is_not_missed(store: Store) -> None:
    step = vocabulary()
    make(store, step)
    store.path(step.inputs["corpus"]).rename(store.home / "away")
    assert states(store, step) == [State.UNNEEDED, State.CACHED]
    assert states(store, step.inputs["corpus"]) == [State.TO_RUN]


def test_a_stale_step_shows_what_differs_from_the_nearest(store: Store) -> None:
    make(store, vocabulary(size=10))
    make(store, vocabulary(size=30, corpus=ToyStage(a=5)))
    (entry,) = [entry for entry in make_plan(store, [vocabulary(size=20)]).entries if entry.state is not State.CACHED]
    assert entry.state is State.STALE
    assert entry.differences == {"size": (10, 20)}


def test_a_change_of_an_input_is_shown_by_its_role(store: Store) -> None:
    make(store, vocabulary())
    changed = vocabulary(corpus=ToyStage(inner=Inner(rate=0.2)))
    corpus, below = make_plan(store, [changed]).entries
    assert corpus.differences == {"inner.rate": (0.1, 0.2)}
    assert below.differences is not None
    assert list(below.differences) == ["input corpus"]


def test_a_raised_revision_is_shown(store: Store) -> None:
    make(store, Step(CORPUS.of(ToyStage()), "everyday"))
    (entry,) = make_plan(store, [Step(ToyKind("corpus", 2, nothing).of(ToyStage()), "everyday")]).entries
    assert entry.differences == {"revision": (1, 2)}


def test_another_experiments_artifact_does_not_make_a_step_stale(store: Store) -> None:
    make(store, Step(CORPUS.of(ToyStage(size=1, a=1, b=1, c=1, inner=Inner(rate=1))), "law"))
    assert states(store, Step(CORPUS.of(ToyStage()), "everyday")) == [State.TO_RUN]


def test_another_step_of_the_same_plan_does_not_make_a_step_stale(store: Store) -> None:
    first, second = Step(CORPUS.of(ToyStage(size=1)), "first"), Step(CORPUS.of(ToyStage(size=2)), "second")
    make(store, first)
    assert [entry.state for entry in make_plan(store, [first, second]).entries] == [State.CACHED, State.TO_RUN]


def test_the_table_reads_well(store: Store) -> None:
    make(store, vocabulary(size=10))
    step = vocabulary(size=20)
    store.work(step).mkdir(parents=True)
    EventLog(store.work(step) / EVENTS).append(Started())
    console = Terminal(width=120, record=True, quiet=False, file=(store.home / "printed").open("w"))
    console.print(table(make_plan(store, [step])))
    corpus, below = console.export_text().splitlines()[1:]
    assert "cached" in corpus and "made in 0 s" in corpus
    assert "everyday's vocabulary" in below and "stale" in below and "size: 10 → 20; was started before" in below
