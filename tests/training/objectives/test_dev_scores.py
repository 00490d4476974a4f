"""Which engine writes the translations of dev scores where the settings leave it open."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from new_vocabularies import LANGUAGES, upstream
from subgraft.config.training import FinetuneSettings
from subgraft.training.objectives.compute import dev_scores
from subgraft.training.objectives.compute.dev_scores import describe_dev_engine, dev_engine
from subgraft.training.objectives.compute.translation import DevScores

PAIRS = [("thank you.", "dank."), ("friend.", "freund."), ("house and land.", "haus land.")]


def _settings(**changes: Any) -> FinetuneSettings:
    return FinetuneSettings(
        max_steps=1, batch_size=200, learning_rate=1e-3, warmup_steps=1, precision="fp32", **changes
    )


def test_ctranslate2_writes_where_it_can_and_scores_are_the_same() -> None:
    bundle = upstream("marian")
    assert dev_engine(_settings(), bundle.model) == "ctranslate2"
    assert describe_dev_engine(_settings(), bundle.model) == {"dev_engine": "ctranslate2"}
    slow = _settings(dev_engine="transformers")
    assert dev_engine(slow, bundle.model) == "transformers" and describe_dev_engine(slow, bundle.model) == {}
    with torch.random.fork_rng():
        scores = [DevScores(bundle, PAIRS, LANGUAGES, settings)() for settings in (_settings(), slow)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_the_rest_is_left_to_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = upstream("marian").model
    assert dev_engine(_settings(train="adapters"), model) == "transformers"
    assert dev_engine(_settings(), upstream("encoder-decoder").model) == "transformers", "it has no such models"
    with monkeypatch.context() as patched:
        patched.setattr(dev_scores, "LARGEST_COPIED", model.num_parameters() - 1)
        assert dev_engine(_settings(), model) == "transformers"
    with monkeypatch.context() as patched:
        patched.setattr(dev_scores, "find_spec", lambda name: None)
        assert dev_engine(_settings(), model) == "transformers"
    next(model.parameters()).ds_id = 0  # type: ignore[attr-defined]
    assert dev_engine(_settings(), model) == "transformers", "its parameters lie in parts"
