"""`pretrain.target_sampling` in whole steps: what it trains, what it is judged by, and what it is refused for."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from small_experiments import TINY, finish_steps, planned, written
from subgraft.base.errors import UserError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.modeling.bundle import Bundle
from subgraft.orchestration.store.store import Store
from subgraft.training.objectives.compute.masked import MaskedSentences
from subgraft.training.objectives.compute.single_stack import StackLoss
from subgraft.training.progress import CURVE
from toys import english, german

MASKED = (
    "model={family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16}",
    "upstream.objectives=[{kind: masked}]",
    "upstream.vocabulary={kind: wordpiece, size: 100}",
    "downstream.vocabulary={kind: wordpiece, size: 120}",
)
DENOISING = ("model.family=mbart", "upstream.objectives=[{kind: denoising, block_tokens: 40}]")
SHORT = ("pretrain.epochs=8", "pretrain.warmup_steps=10", "pretrain.learning_rate=0.01")
NEAREST = "pretrain.target_sampling={kind: nearest, neighbours: 5, rebuild_every: 7}"
UNIFORM = "pretrain.target_sampling={kind: uniform, drawn: 20}"
NOISE = "pretrain.target_sampling={kind: noise-contrastive, drawn: 20}"


def _pretrained(place: Path, *changes: str) -> tuple[Pipeline, Path]:
    place.mkdir(exist_ok=True)
    pipeline = Pipeline(load(written(place, TINY), Experiment, (*SHORT, *changes)), place)
    finish_steps([pipeline.models.pretrained], place)
    return pipeline, Store(place / "home").path(pipeline.models.pretrained)


@pytest.mark.slow
@pytest.mark.parametrize("model", [MASKED, DENOISING], ids=["masked", "denoising"])
@pytest.mark.parametrize("sampling", [NEAREST, UNIFORM, NOISE], ids=["nearest", "uniform", "noise-contrastive"])
def test_it_learns_by_candidates_and_is_judged_by_the_whole_vocabulary(
    tmp_path: Path, model: tuple[str, ...], sampling: str
) -> None:
    smoothing = ("pretrain.label_smoothing=0",) if sampling is NOISE else ()
    _, directory = _pretrained(tmp_path, *model, sampling, *smoothing)
    curve = [point["values"] for point in json.loads((directory / CURVE).read_text())]
    (name,) = curve[0]
    vocabulary = len(Bundle.load(directory).decoder)
    assert name == ("masked_loss" if model is MASKED else "denoising_loss")
    # Noise contrast takes the denominator for V, which holds the better the longer it is trained.
    assert curve[0][name] == pytest.approx(np.log(vocabulary), rel=0.1) and curve[-1][name] < 0.97 * curve[0][name]


def test_dev_scores_are_means_under_the_full_softmax_of_dev_text_alone(tmp_path: Path) -> None:
    pipeline, directory = _pretrained(tmp_path, *MASKED, NEAREST)
    bundle, settings = Bundle.load(directory), pipeline.experiment.pretrain
    curve = json.loads((directory / CURVE).read_text())
    (objective,) = pipeline.experiment.upstream.objectives
    texts = [*english(4, 1)[: settings.dev_sentences], *german(4, 1)[: settings.dev_sentences]]
    data = MaskedSentences(texts, bundle.encoder, objective, settings.max_length, 1)  # type: ignore[arg-type]
    with torch.no_grad():
        batch = data.batch(np.arange(len(texts)), 0)
        mean = float(StackLoss(bundle.model.eval())(batch)["loss"]) / batch.counts["loss"]
    assert curve[-1]["values"]["masked_loss"] == pytest.approx(mean, rel=1e-4)


def test_sampling_changes_the_fingerprint_of_pretraining(tmp_path: Path) -> None:
    config = written(tmp_path, TINY)

    def fingerprint(*changes: str) -> str:
        return planned(config, *MASKED, *changes).models.pretrained.fingerprint

    known = [fingerprint(), *(fingerprint(each) for each in (NEAREST, UNIFORM))]
    known.append(fingerprint("pretrain.target_sampling={kind: nearest, neighbours: 6, rebuild_every: 7}"))
    assert len(set(known)) == 4


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ([NEAREST], "target_sampling is for the objectives masked and denoising, not for translation"),
        ([*MASKED, NOISE], "write `label_smoothing: 0`"),
        ([*MASKED, "pretrain.target_sampling={neighbours: 5}"], "kind"),
        ([*MASKED, "pretrain.target_sampling={kind: nearest, neighbours: 0}"], "neighbours"),
        ([*MASKED, "pretrain.target_sampling={kind: uniform, neighbours: 5}"], "neighbours"),
        ([*MASKED, "finetune.target_sampling={kind: uniform}"], "target_sampling"),
    ],
)
def test_what_cannot_be_sampled_is_refused(changes: list[str], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=complaint):
        load(written(tmp_path, TINY), Experiment, changes)
