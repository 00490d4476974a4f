"""Pretraining on two Ray Train workers under ZeRO 2 is the pretraining of one worker without DeepSpeed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from small_experiments import planned
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.runner import run
from subgraft.orchestration.store.store import Store

pytestmark = pytest.mark.ray

SETTINGS = (
    "corpora.everyday.limit={train: 600, dev: 20, test: 20}",
    "upstream.vocabulary.size=400",
    "upstream.vocabulary.byte_fallback=false",
    "model={d_model: 32, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 64, dropout: 0.0}",
    "pretrain={epochs: 1, batch_size: 1000, micro_batch_size: 300, dev_sentences: 10}",
)


def _losses(home: Path, fingerprint: str) -> dict[int, float]:
    events = (home / "work" / fingerprint / "events.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in events if '"train_loss"' in line]
    return {event["step"]: event["values"]["train_loss"] for event in metrics}


@pytest.mark.slow
def test_two_sharded_workers_train_as_one_plain_worker(repository: Path, tmp_path: Path) -> None:
    config = repository / "configs" / "quickstart.yaml"
    step = planned(config, *SETTINGS).models.pretrained
    curves = []
    for name, runtime in (("one", Runtime()), ("two", Runtime(workers=2, zero_stage=2))):
        run(Store(tmp_path / name), [step], runtime)
        curves.append(_losses(tmp_path / name, step.fingerprint))
    assert len(curves[0]) > 5
    assert curves[1] == pytest.approx(curves[0], rel=1e-3)
