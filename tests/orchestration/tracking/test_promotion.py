"""Candidates against champions, in a real SQLite registry, on texts whose scores are known."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics.bleu import BLEU
from safetensors.numpy import save_file

from subgraft.base.errors import OperationalError, UserError
from subgraft.interfaces.cli import main
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.model_registry import CANDIDATE, CARD, CHAMPION, Registry
from subgraft.orchestration.tracking.promotion import Requirement, promote
from subgraft.orchestration.tracking.server import Server
from subgraft.orchestration.tracking.tracker import Tracker
from subgraft.training.context import Json
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing, record_of

REFERENCES = [f"the court of number {n} grants damages to party {n} of the contract ." for n in range(40)]
SOURCES = [f"das Gericht {n} ." for n in range(40)]
TAGS = {"chosen_by": "dev BLEU", "target_language": "en", "beam": "4", "max_length_ratio": "2.5"}


class ToyStage(Stage):
    name: str


EVALUATE, FINETUNE = ToyKind("evaluate", 1, nothing), ToyKind("finetune", 1, nothing)


@pytest.fixture(autouse=True)
def no_server_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def registry(store: Store) -> Registry:
    return Registry(Server(store.home))


def outputs(wrong: int) -> list[str]:
    """The references, so many of them spoilt."""
    return [line.replace("grants", "refuses") if n < wrong else line for n, line in enumerate(REFERENCES)]


def evaluation(store: Store, name: str, hypotheses: Sequence[str], references: Sequence[str]) -> Step:
    def write(out: Path) -> dict[str, Json]:
        texts = {"sources": SOURCES, "references": references, "hypotheses": hypotheses}
        for kind, lines in texts.items():
            (out / f"{kind}.txt").write_text("".join(f"{line}\n" for line in lines))
        (out / "evaluation.json").write_text(json.dumps({"sentences": len(references)}))
        return {}

    step = Step(EVALUATE.of(ToyStage(name=name)), f"evaluate {name}")
    store.publish(step, write)
    return step


@pytest.fixture
def register(store: Store) -> Callable[..., None]:
    """Registers a model of this name, of which only the outputs matter."""

    def make(
        model: str,
        name: str,
        hypotheses: Sequence[str] | None,
        references: Sequence[str] = REFERENCES,
        tags: dict[str, str] = TAGS,
    ) -> None:
        def write(out: Path) -> dict[str, Json]:
            save_file({"weight": np.frombuffer(f"{model} {name}".encode(), np.uint8)}, out / "model.safetensors")
            return {}

        step = Step(FINETUNE.of(ToyStage(name=f"{model} {name}")), name)
        store.publish(step, write)
        tested = evaluation(store, f"{model} {name}", hypotheses, references) if hypotheses else None
        tracker = Tracker(store, "demo", print)
        tracker.finished(step, record_of(store, step))
        tracker.register(step, model, (CANDIDATE, CHAMPION), tags, card=f"# {name}\n", evaluation=tested)
        assert tracker.close()

    return make


def bleu(hypotheses: Sequence[str]) -> float:
    return float(BLEU().corpus_score(list(hypotheses), [REFERENCES]).score)


def test_only_a_better_candidate_takes_the_place(registry: Registry, register: Callable[..., None]) -> None:
    register("better", "first", outputs(30))
    assert registry.version("better@champion").number == 1, "the first there is"
    assert promote(registry, "better", Requirement()).comparison is None

    register("better", "same", outputs(29))
    verdict = promote(registry, "better", Requirement())
    assert verdict.comparison is not None
    assert not verdict.promoted and verdict.comparison.difference > 0
    assert registry.version("better@champion").number == 1
    assert registry.version("better/2").tags["promotion.promoted"] == "false"

    register("better", "worse", outputs(40))
    verdict = promote(registry, "better", Requirement())
    assert verdict.comparison is not None
    assert verdict.comparison.p_value < 0.05, "significantly worse is not a reason either"
    assert not verdict.promoted and registry.version("better@champion").number == 1

    register("better", "best", outputs(5))
    verdict = promote(registry, "better", Requirement(samples=500, seed=7))
    assert verdict.comparison is not None
    assert verdict.promoted and registry.version("better@champion").number == 4
    assert verdict.comparison.difference == pytest.approx(bleu(outputs(5)) - bleu(outputs(30)))
    tags = {key.removeprefix("promotion."): value for key, value in registry.version("better/4").tags.items()}
    assert (tags["against"], tags["samples"], tags["seed"]) == ("models:/better/1", "500", "7")
    assert float(tags["delta"]) == pytest.approx(verdict.comparison.difference, abs=1e-4)
    low, high = json.loads(tags["interval"])
    assert low < float(tags["delta"]) < high and float(tags["p"]) < 0.05
    assert (tags["seeds"], tags["claim"]) == ("1", "of these outputs, this seed")
    assert tags["split"] == "test" and tags["sentences"] == "40" and "tok:13a" in tags["signature"]


def test_a_level_that_nothing_can_reach_is_refused() -> None:
    with pytest.raises(UserError, match=r"no p-value is below 0\.001"):
        Requirement(level=0.001, samples=500)


def test_the_exit_code_says_what_came_of_it(
    store: Store,
    registry: Registry,
    register: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(store.home))
    register("shown", "first", outputs(30))
    register("shown", "second", outputs(29))
    capsys.readouterr()
    assert main(["models", "promote", "shown"]) == 1
    ended = capsys.readouterr()
    prefix = r"shown: version 2 does not become the champion: BLEU \+.* against version 1, "
    assert re.fullmatch(prefix + r"within the sampling error of the sentences, for one seed only \(p = .*\n", ended.out)
    assert ended.err == ""
    register("shown", "third", outputs(3))
    assert main(["models", "promote", "models:/shown"]) == 0
    promoted = capsys.readouterr().out
    assert "version 3 becomes the champion: BLEU +" in promoted
    assert "beyond the sampling error of the sentences, for one seed only (p " in promoted
    assert "significan" not in promoted + ended.out
    assert registry.version("shown").number == 3
    assert main(["models", "promote", "shown", "--level", "0.0001"]) == 2
    assert main(["models", "promote", "shown", "--level", "5"]) == 2
    assert registry.version("shown").number == 3


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"references": [line.upper() for line in REFERENCES]}, "not tested on the same text: references.txt"),
        ({"tags": {**TAGS, "beam": "1"}}, "beam of the candidate's test is 1"),
        ({"tags": {**TAGS, "chosen_by": "test"}}, "no tag says that dev scores chose it"),
        ({"hypotheses": None}, "registered without its test translations"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    registry: Registry, register: Callable[..., None], changed: dict[str, object], message: str
) -> None:
    model = message.split()[0]
    register(model, "first", outputs(30))
    register(model, "second", **{"hypotheses": outputs(0), **changed})
    with pytest.raises(UserError, match=message):
        promote(registry, model, Requirement())
    assert registry.version(f"{model}@champion").number == 1
    assert not any(tag.startswith("promotion") for tag in registry.version(f"{model}/2").tags)


def test_an_older_registration_is_completed(registry: Registry, register: Callable[..., None]) -> None:
    register("old", "model", None, tags={})
    version = registry.version("old/1")
    assert registry.evaluation(version) is None
    register("old", "model", outputs(3))
    (completed,) = (one for one in registry.versions() if one.model == "old")
    assert completed.tags["chosen_by"] == "dev BLEU"
    texts = registry.evaluation(completed)
    assert texts is not None
    assert (texts / "hypotheses.txt").read_text().splitlines() == outputs(3)
    assert (registry.resolve("old") / CARD).read_text() == "# model\n"


def test_damaged_texts_decide_nothing(registry: Registry, register: Callable[..., None]) -> None:
    register("damaged", "first", outputs(30))
    register("damaged", "second", outputs(0))
    texts = registry.evaluation(registry.version("damaged@champion"))
    assert texts is not None
    (texts / "hypotheses.txt").write_text("nothing\n" * 40)
    with pytest.raises(OperationalError, match="not those registered"):
        promote(registry, "damaged", Requirement())
    assert registry.version("damaged@champion").number == 1


def test_what_is_pulled_is_what_was_registered(
    registry: Registry, register: Callable[..., None], tmp_path: Path
) -> None:
    register("pulled", "model", outputs(30))
    (tmp_path / "out").mkdir()
    assert registry.pull("models:/pulled", tmp_path / "out").number == 1
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"model.safetensors", "record.json", CARD}
    source = registry.resolve("pulled")
    (source / CARD).write_text("another card")
    with pytest.raises(OperationalError, match="card is not the one"):
        registry.pull("models:/pulled", tmp_path / "other")
