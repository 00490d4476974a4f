"""Settings of a training, in whole steps: dropout by step, selected weights, continued pretraining."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from small_experiments import TINY, finish, perform_step, planned, written
from subgraft.base.errors import UserError
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.stages.training import PretrainStage
from subgraft.training.progress import CURVE, selected_weights

SHORT = "pretrain.epochs=4"
# Dev BLEU is zero for so short a training, so it would keep the weights of the beginning.
LAST = "pretrain.select=last"


def pretrained(config: Path, home: Path, *changes: str) -> tuple[Pipeline, Path]:
    """The experiment, and its pretrained model's directory."""
    pipeline = planned(config, SHORT, LAST, *changes)
    for step in in_order([pipeline.models.pretrained]):
        perform_step(step, home)
    return pipeline, Store(home).path(pipeline.models.pretrained)


def curve(directory: Path) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = json.loads((directory / CURVE).read_text())
    return points


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("choices"), TINY)


@pytest.fixture(scope="module")
def plain(config: Path) -> Path:
    return pretrained(config, config.parent / "home")[1]


def test_dropout_by_step_is_the_dropout_of_a_model_built_so(config: Path, plain: Path) -> None:
    """And the config.json keeps the model's own."""
    home = config.parent / "home"
    _, scheduled = pretrained(config, home, "pretrain.dropout_schedule=[{step: 0, dropout: 0.0}]")
    _, built = pretrained(config, home, "model.dropout=0.0")
    weights, expected, before = (load_file(place / "model.safetensors") for place in (scheduled, built, plain))
    assert all(torch.equal(tensor, expected[name]) for name, tensor in weights.items())
    assert any(not torch.equal(tensor, before[name]) for name, tensor in weights.items())
    assert json.loads((scheduled / "config.json").read_text())["dropout"] == 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("select", "criterion"), [("likelihood", "bits_per_character"), ("chrf", "chrf"), ("last", None)]
)
def test_the_weights_that_are_kept_are_those_that_the_settings_choose(
    config: Path, tmp_path: Path, select: str, criterion: str | None
) -> None:
    place = written(tmp_path, TINY)
    choice = (f"pretrain.select={select}", f"finetune.select={select}", "finetune.evaluate_at=[1, 2, 3]")
    pipeline, store = finish(place, SHORT, "finetune.learning_rate=0.05", "finetune.warmup_steps=1", *choice)
    for step in (pipeline.models.pretrained, *(system.finetune for system in pipeline.systems)):
        record, points = store.find(step), curve(store.path(step))
        assert record is not None and len(points) > 4
        sign = -1.0 if criterion == "chrf" else 1.0
        best = (
            points[-1] if criterion is None else min(points, key=lambda point: sign * float(point["values"][criterion]))
        )
        assert record.summary["best_step"] == best["step"]
        assert selected_weights(store.path(step), select).step == best["step"]  # type: ignore[arg-type]
    assert "bleu" not in (store.path(pipeline.report) / "report.md").read_text().split("Kept:")[1].split(",")[0].lower()


def test_a_checkpoint_is_pretrained_further_from_where_it_stands(config: Path, plain: Path) -> None:
    """With its own vocabularies, whatever model the configuration describes; its first dev scores are its last ones."""
    changes = (f"upstream.checkpoint={plain}", "upstream.continue_pretraining=true", "model.d_model=64")
    pipeline, further = pretrained(config, config.parent / "home", *changes)
    recipe, checkpoint = pipeline.models.pretrained.stage, pipeline.models.pretrained.inputs["model"]
    assert isinstance(recipe, PretrainStage) and recipe.model is None
    assert set(pipeline.models.pretrained.inputs) == {"corpus", "model"} and checkpoint.stage.stage_name == "checkpoint"
    before, after = Bundle.load(plain), Bundle.load(further)
    assert [after.encoder.fingerprint, after.decoder.fingerprint] == [
        before.encoder.fingerprint,
        before.decoder.fingerprint,
    ]
    assert after.model.config.d_model == 16
    known, continued = curve(plain), curve(further)
    bits = known[-1]["values"]["bits_per_character"]
    assert continued[0]["values"]["bits_per_character"] == pytest.approx(bits, rel=1e-6)
    assert (
        len(continued) == 5
        and continued[-1]["values"]["bits_per_character"] < continued[0]["values"]["bits_per_character"]
    )
    assert pipeline.vocabularies.downstream["decoder"].inputs["model"] is checkpoint


def test_a_checkpoint_as_it_is_needs_no_dev_set_and_stays_the_step_it_was(config: Path, plain: Path) -> None:
    pipeline = planned(config, f"upstream.checkpoint={plain}")
    assert pipeline.models.pretrained.stage.stage_name == "checkpoint" and not pipeline.models.pretrained.inputs


def test_what_is_pretrained_further_must_take_its_sequences(config: Path, plain: Path) -> None:
    changes = [f"upstream.checkpoint={plain}", "upstream.continue_pretraining=true", "pretrain.max_length=600"]
    with pytest.raises(UserError, match="a max_length of 600 is beyond the checkpoint's limit"):
        _ = planned(config, *changes).models.pretrained
