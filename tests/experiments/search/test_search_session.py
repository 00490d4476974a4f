"""Whole searches on a Ray of one core: they end, make every step once, and leave what they promise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from small_searches import searchable
from subgraft.base.errors import OperationalError, UserError
from subgraft.base.locks import Lock
from subgraft.base.security.local_ray import ray_folder, start
from subgraft.base.terminal import Terminal
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.session import SearchOutcome, SearchSession, last_trial_steps, sessions
from subgraft.experiments.search.trial_results import Ledger, TrialResult, Value
from subgraft.interfaces.cli import main
from subgraft.interfaces.cli.store import needed
from subgraft.orchestration.execution.cluster import ENVIRONMENT
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.server import Server

pytestmark = pytest.mark.ray

IDENTICAL = ("search.space={kd_weight: [0.5], vocabulary_size: [70]}", "search.concurrent=3", "search.trials=3")


@pytest.fixture(scope="module")
def one_core() -> Iterator[None]:
    """A local Ray that has one core, as long as this module's tests need it."""
    import ray

    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("RAY_ADDRESS", raising=False)
        environment.delenv("MLFLOW_TRACKING_URI", raising=False)
        for name, value in ENVIRONMENT.items():
            environment.setenv(name, value)
        with ray_folder(print) as folder:
            start(folder, cpus=1)
            yield
            assert ray.available_resources()["CPU"] == 1.0, "a step of a search that is over holds the core"
            assert ray.available_resources()["node:__internal_head__"] == 1.0, (
                "a trial of a search that is over is left"
            )
            ray.shutdown()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    return tmp_path


def session(place: Path, *changes: str) -> SearchSession:
    config = place / "config.yaml" if (place / "config.yaml").exists() else searchable(place)
    (one,) = sessions(load(config, Experiment, changes), place)
    return one


def searched(place: Path, *changes: str) -> SearchOutcome:
    with (place / "said").open("a") as said:
        return session(place, *changes).run(Terminal(file=said, width=200))


def starts(place: Path, stage: str) -> int:
    """How often steps of a stage were begun."""
    made = [json.loads(path.read_text())["fingerprint"] for path in place.glob(f"home/store/{stage}/*/record.json")]
    logs = [(place / "home" / "work" / fingerprint / "events.jsonl").read_text() for fingerprint in made]
    return sum(log.count('"kind": "started"') for log in logs)


def test_a_search_ends_on_one_core_and_is_reported_everywhere(one_core: None, place: Path) -> None:
    result = searched(place)
    assert [trial.state for trial in result.trials] == ["finished"] * 3 and result.failed == ()
    assert starts(place, "pretrain") == starts(place, "corpus") / 2 == 1
    distinct = {json.dumps(trial.values) for trial in result.trials}
    assert starts(place, "finetune") == len(distinct)
    page = result.page.path.read_text()
    assert 'http-equiv="refresh"' not in page and all(f">{number}<" in page.replace(" ", "") for number in range(1, 4))
    assert not (result.page.path.parent / "tune").exists(), "Tune's pickles are gone"
    said = (place / "said").read_text()
    assert "[started]  trial-3 of 3" in said and said.count("[finished] trial-") == 3 and " left)" in said
    _check_tracking(place, result)
    _check_rerun(place, result)


def _check_tracking(place: Path, result: SearchOutcome) -> None:
    server = Server(place / "home")
    (parent,) = server.recent(5)
    assert parent.tags["kind"] == "search"
    children = list(server.children(parent))
    trials = {child.name: child for child in children if "trial" in child.tags}
    assert set(trials) == {f"trial-{number}" for number in range(1, 4)}
    assert [child.tags["stage"] for child in children if "stage" in child.tags].count("pretrain") == 1
    for trial in result.trials:
        child = trials[trial.name]
        assert child.tags["state"] == "finished"
        assert child.metrics["dev_bleu"] == pytest.approx(trial.objectives["dev_bleu"])
        below = [stage.tags["stage"] for stage in server.children(child)]
        assert len(below) == len(trial.made), "the steps that a trial made are shown below it"
        assert child.tags["fingerprint.finetune"]
        assert server.client.get_run(child.id).data.params["initialiser"] == trial.values["initialiser"]


def _check_rerun(place: Path, result: SearchOutcome) -> None:
    """Nothing is done again."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_ADDRESS", "127.0.0.1:1")  # where no Ray is
        assert searched(place).trials == result.trials


GRID = (
    "search={systems: [plain, searched], sampler: grid, objectives: [dev_bleu], asha: null,"
    " space: {learning_rate: [0.0005, 0.001], embedding_learning_rate: [0, 0.004]}}",
    "finetune.epochs=1",
)


@pytest.mark.slow
def test_rates_of_several_systems_are_tried_in_as_many_trials_each(
    one_core: None, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The old vocabulary's too. The best of each takes the system's own place, and a run of it finds it finetuned."""
    assert main(["search", str(searchable(place)), *GRID]) == 0
    ledgers = [Ledger(path).trials() for path in (place / "home").glob("searches/*/trials.jsonl")]
    for trials in ledgers:
        assert sorted(tuple(trial.values.values()) for trial in trials.values()) == [
            (0.0005, 0), (0.0005, 0.004), (0.001, 0), (0.001, 0.004)
        ]  # fmt: skip
        assert {trial.state for trial in trials.values()} == {"finished"}
    assert len(ledgers) == 2 and starts(place, "finetune") == 8 and starts(place, "pretrain") == 1
    said = capsys.readouterr().out
    assert said.index("system plain, 1 of 2") < said.index("system searched, 2 of 2")
    pasted = said[said.index("systems:\n") :].strip()
    experiment = load(
        place / "config.yaml", Experiment, ["search=null", "finetune.epochs=1", f"systems={_flow(pasted)}"]
    )
    assert [system.name for system in experiment.systems] == ["plain", "searched"]
    store = Store(place / "home")
    assert all(store.find(steps.finetune) for steps in Pipeline(experiment, place).systems)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("RAY_ADDRESS", "127.0.0.1:1")  # where no Ray is
        assert main(["search", str(place / "config.yaml"), *GRID]) == 0, "nothing is tried again"


def _flow(systems: str) -> str:
    return "[" + ", ".join(line.strip().removeprefix("- ") for line in systems.splitlines()[1:]) + "]"


@pytest.mark.slow
def test_more_trials_go_on_from_those_there_are(one_core: None, place: Path) -> None:
    result = searched(place, "search.trials=2")
    more = searched(place, "search.trials=3", "search.concurrent=1")
    assert more.page.path == result.page.path
    assert len(more.trials) == 3 and more.trials[:2] == result.trials


@pytest.mark.slow
def test_trials_that_want_the_same_steps_at_once_make_them_once_on_one_core(one_core: None, place: Path) -> None:
    result = searched(place, *IDENTICAL)
    assert [trial.state for trial in result.trials] == ["finished"] * 3
    for stage in ("vocabulary", "generator", "transfer", "finetune", "evaluate"):
        assert starts(place, stage) == len(list(place.glob(f"home/store/{stage}/*"))), stage
    assert len(list(place.glob("home/store/finetune/*"))) == 1
    assert sum(bool(trial.made) for trial in result.trials) == 1, "what all made is one trial's"


@pytest.mark.slow
def test_asha_stops_a_finetuning_whose_checkpoint_stays(one_core: None, place: Path) -> None:
    """Earlier trials were far better, as the ledger says: nothing of this model's gets as far."""
    changes = (
        "search.asha={grace_evaluations: 1, reduction_factor: 2}",
        "search.trials=6",
        "search.concurrent=1",
        "finetune.epochs=40",
    )
    stopping = session(place, *changes)
    ledger = Ledger(stopping.folder / "trials.jsonl")
    stopping.folder.mkdir(parents=True)
    best = {"dev_bleu": 90.0, "sentences_per_second": 50.0}
    for number in (1, 2, 3, 4):
        values: dict[str, Value] = {"initialiser": "avg", "vocabulary_size": 70}
        ledger.note(TrialResult(number, values, "finished", best, ((1, 80.0), (2, 90.0))))
    result = searched(place, *changes)
    assert [trial.state for trial in result.trials[4:]] == ["stopped"] * 2
    assert not (place / "home" / "store" / "finetune").exists(), "nothing was finetuned to its end"
    assert [len(trial.curve) for trial in result.trials[4:]] == [1, 1]
    assert list(place.glob("home/work/*/checkpoints/*/*")), "another search may go on from there"


@pytest.mark.slow
def test_what_cannot_be_is_reported_and_the_search_goes_on(one_core: None, place: Path) -> None:
    result = searched(place, "search.space={vocabulary_size: [70, 30000]}", "search.trials=3", "search.sampler=tpe")
    states = {trial.values["vocabulary_size"]: trial.state for trial in result.trials}
    assert states == {70: "finished", 30000: "refused"}
    refused = next(trial for trial in result.trials if trial.state == "refused")
    assert "30000" in refused.said
    with pytest.raises(UserError, match="no trial could be done"):
        searched(place, "search.space={vocabulary_size: [30000]}", "search.trials=1")


def test_one_process_at_a_time(place: Path) -> None:
    folder = session(place).folder
    folder.mkdir(parents=True)
    claim = Lock.take(folder / "claim")
    assert claim is not None
    with claim, pytest.raises(OperationalError, match="another process is at this search"):
        searched(place)


def test_what_trials_made_is_not_surplus(place: Path) -> None:
    folder, home = session(place).folder, place / "home"
    experiment = load(place / "config.yaml", Experiment)
    assert last_trial_steps(home, experiment, place) == []
    folder.mkdir(parents=True)
    ledger = Ledger(folder / "trials.jsonl")
    for number, weight in enumerate((0.25, 0.5)):
        ledger.note(TrialResult(number, {"kd_weight": weight, "vocabulary_size": 70}, "finished"))
    steps = last_trial_steps(home, experiment, place)
    mine = {step.fingerprint for step in steps}
    assert {step.stage.stage_name for step in steps} == {"finetune", "evaluate"} and len(mine) == 4
    assert mine <= needed(place / "config.yaml", [])
    assert not mine <= needed(place / "config.yaml", ["search=null"])


def test_a_configuration_without_a_search_is_refused(place: Path) -> None:
    with pytest.raises(UserError, match="has no section `search`"):
        session(place, "search=null")
    assert not (place / "home").exists()
