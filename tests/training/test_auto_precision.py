"""`precision: auto` resolves to a named precision, the same for all attempts, steps and workers."""

from __future__ import annotations

import json
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file

from new_vocabularies import LANGUAGES, TEXTS, upstream
from subgraft.config.corpora import Cleaning
from subgraft.config.training import FinetuneSettings, NamedPrecision, Precision
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.modeling import precision
from subgraft.modeling.precision import MeasuredPrecision
from subgraft.pipeline.compute.finetune import run
from subgraft.pipeline.stages.training import FinetuneStage
from subgraft.training.auto_precision import PRECISION, describe_precision, with_named_precision
from subgraft.training.context import Json
from watched import KilledError, Watched

STEPS = 4
OTHER: dict[NamedPrecision, NamedPrecision] = {"fp32": "bf16", "bf16": "fp32"}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("given")
    for split, count in (("train", 60), ("dev", 3), ("test", 3)):
        for column, language in enumerate(("en", "de")):
            (place / f"{split}.{language}").write_text("".join(f"{pair[column]}\n" for pair in TEXTS[:count]))
    cleaning = Cleaning(drop_held_out=False, deduplicate=False)
    build(CorpusSource(folder=str(place)), LANGUAGES, cleaning, place / "corpus")
    upstream("marian").save(place / "model")
    return {name: place / name for name in ("model", "corpus")}


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "SECONDS", 0.05)


class Listening(Watched):
    """Keeps what it is warned of."""

    def __init__(self, work: Path) -> None:
        super().__init__(work, None)
        self.warnings: list[str] = []

    def warn(self, line: str) -> None:
        self.warnings.append(line)


def recipe(asked: Precision) -> FinetuneStage:
    training = FinetuneSettings(
        max_steps=STEPS, batch_size=300, max_length=40, learning_rate=0.01, warmup_steps=1, precision=asked,
        dev_sentences=2, select="last",
    )  # fmt: skip
    return FinetuneStage(languages=LANGUAGES, training=training, seed=1)


def finetune(inputs: dict[str, Path], out: Path, asked: Precision, context: Watched) -> dict[str, Json]:
    out.mkdir(parents=True, exist_ok=True)
    return run(recipe(asked), inputs, out, context)


def same_weights(one: Path, other: Path) -> bool:
    first, second = (load_file(place / "model.safetensors") for place in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def keep(place: Path, chosen: NamedPrecision) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    measured = MeasuredPrecision(chosen, {"fp32": 1.0, "bf16": 2.0 if chosen == "fp32" else 0.5}, "another machine")
    place.write_text(json.dumps(asdict(measured)))


def test_auto_trains_what_the_name_trains_and_the_record_says_why(inputs: dict[str, Path], tmp_path: Path) -> None:
    context = Watched(tmp_path / "work", None)
    described = finetune(inputs, tmp_path / "auto", "auto", context)["precision"]
    assert isinstance(described, dict) and described["chosen"] in ("fp32", "bf16")
    assert set(described["seconds"]) == {"fp32", "bf16"} and "threads" in described["measured_on"]
    assert [f"auto chose {described['chosen']}," in note for note in context.notes] == [True]
    for name in ("fp32", "bf16"):
        record = finetune(inputs, tmp_path / name, name, Listening(tmp_path / f"work-{name}"))
        assert "precision" not in record
        assert same_weights(tmp_path / "auto", tmp_path / name) == (name == described["chosen"])


def test_all_steps_of_a_home_take_what_was_measured_first(inputs: dict[str, Path], tmp_path: Path) -> None:
    """Else two systems of one comparison could differ in it, by chance."""
    model = upstream("marian").model
    first = Watched(tmp_path / "first", None)
    first.measured = tmp_path / "measured"
    chosen = with_named_precision(recipe("auto"), model, first).training.precision
    assert chosen in OTHER
    (measurement,) = first.measured.iterdir()
    keep(measurement, OTHER[chosen])
    later = Watched(tmp_path / "later", None)
    later.measured = first.measured
    assert with_named_precision(recipe("auto"), model, later).training.precision == OTHER[chosen]
    assert (describe_precision(later) or {})["measured_on"] == "another machine"
    ratio = 2 if OTHER[chosen] == "fp32" else 0.5
    assert [f"{ratio} times as long as fp32 on another machine" in note for note in later.notes] == [True]
    measurement.write_text("{damaged")
    damaged = Watched(tmp_path / "after-damage", None)
    damaged.measured = first.measured
    with_named_precision(recipe("auto"), model, damaged)
    assert json.loads(measurement.read_text())["device"] != "another machine", "it was measured again"


@pytest.mark.parametrize("begun", ["fp32", "bf16"])
def test_a_training_goes_on_in_the_precision_it_began_in(
    inputs: dict[str, Path], tmp_path: Path, begun: NamedPrecision
) -> None:
    """One of the two is not what this machine would be found to be faster in."""
    keep(tmp_path / "work" / PRECISION, begun)
    killed = Watched(tmp_path / "work", die_at=2)
    with pytest.raises(KilledError):
        finetune(inputs, tmp_path / "killed", "auto", killed)
    carried_on = Watched(tmp_path / "work", None)
    finetune(inputs, tmp_path / "carried-on", "auto", carried_on)
    assert carried_on.steps == [2, 3, 4]
    finetune(inputs, tmp_path / "named", begun, Listening(tmp_path / "uninterrupted"))
    assert same_weights(tmp_path / "carried-on", tmp_path / "named")


@pytest.mark.slow
def test_rank_0_decides_for_all_workers(tmp_path: Path) -> None:
    """The other one has a choice of its own lying there, and does not take it."""
    keep(tmp_path / "0" / PRECISION, "bf16")
    keep(tmp_path / "1" / PRECISION, "fp32")
    workers = [get_context("spawn").Process(target=_decide, args=(rank, tmp_path)) for rank in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [(tmp_path / f"decided-{rank}").read_text() for rank in range(2)] == ["bf16", "bf16"]


def _decide(rank: int, place: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{place / 'rendezvous'}", rank=rank, world_size=2)
    context = Watched(place / str(rank), None)
    decided = with_named_precision(recipe("auto"), upstream("marian").model, context)
    (place / f"decided-{rank}").write_text(decided.training.precision)
    dist.destroy_process_group()


@pytest.mark.skipif(torch.cuda.is_available(), reason="GPUs are fast in bf16")
@pytest.mark.parametrize("faster", ["fp32", "bf16"])
def test_a_named_bf16_stays_and_is_warned_of_once_where_it_is_slow(tmp_path: Path, faster: NamedPrecision) -> None:
    model, first = upstream("marian").model, Listening(tmp_path / "first")
    with_named_precision(recipe("auto"), model, first)
    (measured,) = first.measured.iterdir()
    keep(measured, faster)
    for _ in range(2):
        assert with_named_precision(recipe("bf16"), model, first).training.precision == "bf16"
    expected = ["2.0 times as long as fp32"] if faster == "fp32" else []
    assert len(first.warnings) == len(expected)
    assert all(part in line for part, line in zip(expected, first.warnings, strict=True))


def test_a_named_precision_measures_nothing(tmp_path: Path) -> None:
    asked, context = recipe("fp32"), Watched(tmp_path / "work", None)
    assert with_named_precision(asked, upstream("marian").model, context) is asked
    assert not context.work.exists() and describe_precision(context) is None
