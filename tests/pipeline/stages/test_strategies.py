"""Every strategy from its corpora to the report, on text invented here, in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from small_experiments import finish, tiny, written
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.store import Store

CONFIG = tiny(
    joint_vocabulary="{size: 68, byte_fallback: false, weighing: equal}",
    pretrain="{epochs: 1, max_steps: 3, batch_size: 500, precision: fp32, dev_sentences: 2}",
    generator_training="{max_steps: 2, precision: fp32}",
    token_distillation_training="{epochs: 1, max_steps: 3, precision: fp32, dev_sentences: 2}",
    likelihood_matching="{text: own-translations}",
    likelihood_matching_training="{epochs: 1, max_steps: 3, precision: fp32, dev_sentences: 2}",
    systems="""
      - {name: plain, vocabulary: upstream}
      - {name: single, pretraining: none}
      - {name: task, pretraining: downstream-vocabulary}
      - {name: joint, pretraining: joint-vocabulary}
      - {name: sampled, vocabulary: upstream, pretraining: sampled}
      - {name: independent, initialiser: random, copy_shared_tokens: false, embeddings_only_fraction: 0.5}
      - {name: attached, initialiser: mean, tie_to_sources: true}
      - {name: distilled, initialiser: token-distillation}
      - {name: matched, initialiser: likelihood-matching, starts_from: patt}
    """,
    intrinsic="{tokens: 3}",
    evaluation="""
      {upstream_sentences: 2, beam: 1, speed_sentences: 2, speed_repeats: 1, test_sentences: 3, bootstrap_samples: 20}
    """,
)


@pytest.fixture(scope="module", params=[pytest.param("marian", marks=pytest.mark.slow), "mbart"])
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Pipeline, Store]:
    place = tmp_path_factory.mktemp(request.param)
    return finish(written(place, CONFIG), f"model.family={request.param}")


@pytest.mark.slow
def test_every_system_is_translated_with_its_own_vocabulary(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    systems = {steps.system.name: steps for steps in pipeline.systems}
    sizes = {name: len(Bundle.load(store.path(steps.finetune)).decoder) for name, steps in systems.items()}
    new = dict.fromkeys(("single", "task", "independent", "attached", "distilled", "matched"), 75)
    assert sizes == {"plain": 60, "joint": 68, "sampled": 60, **new}
    for steps in systems.values():
        assert (store.path(steps.evaluate) / "hypotheses.txt").read_text().count("\n") == 3


@pytest.mark.slow
def test_a_system_is_billed_for_its_own_pretraining(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    lines = (store.path(pipeline.report) / "report.md").read_text().splitlines()
    heading = next(i for i, line in enumerate(lines) if line.startswith("| system") and "finetuning" in line)
    single = next(line for line in lines[heading:] if line.startswith("| single"))
    bill = dict(zip(cells(lines[heading]), cells(single), strict=True))
    assert bill["upstream"] == bill["generator"] == "–" != bill["finetuning"]
    for name in ("distilled", "matched"):
        system = next(line for line in lines[heading:] if line.startswith(f"| {name}"))
        assert dict(zip(cells(lines[heading]), cells(system), strict=True))["generator"] != "–"
    pretrained = {steps.system.name: steps.pretrained for steps in pipeline.systems}
    assert pretrained["single"] is None
    paths = {store.path(step) for step in pretrained.values() if step is not None}
    assert len(paths) == 4
    assert all(record(path).stage == "pretrain" for path in paths)


def test_forgetting_is_reported_except_of_a_model_from_nothing(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    report = (store.path(pipeline.report) / "report.md").read_text()
    section = report.split("## Forgetting")[1].split("\n## ")[0].splitlines()
    scores = {cells(line)[0]: cells(line)[1:] for line in section if line.startswith("|")}
    assert scores["single"][0] == "–" != scores["single"][1]
    assert "–" not in scores["plain"] and "–" not in scores["independent"]
    for steps in pipeline.systems:
        after = store.path(steps.measured["upstream_after"])
        assert (after / "sources.txt").read_text().count("\n") == 2
        evaluation = json.loads((after / "evaluation.json").read_text())
        assert evaluation["speed"] is evaluation["calibration"] is None


def test_held_out_tokens_are_made_again_where_there_is_an_initialiser(finished: tuple[Pipeline, Store]) -> None:
    pipeline, store = finished
    measured = {
        steps.system.name: steps.measured["intrinsic"] for steps in pipeline.systems if "intrinsic" in steps.measured
    }
    assert list(measured) == ["independent", "attached"]
    for step in measured.values():
        quality = json.loads((store.path(step) / "intrinsic.json").read_text())["decoder"]
        assert 0 < quality["tokens"] <= 3
        assert -1 <= quality["cosine"] <= 1 and 0 < quality["reciprocal_rank"] <= 1
    assert "Held-out tokens of the decoder" in (store.path(pipeline.report) / "report.md").read_text()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")[1:-1]]


def record(directory: Path) -> Record:
    return Record.from_json((directory / "record.json").read_text())
