"""Features to text from a file that a user could have made: images of three digits, and the number in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from sklearn.datasets import load_digits

from subgraft.config.evaluation import MeasurementSettings
from subgraft.config.models import GPT2Settings
from subgraft.contrib.conditioning.conditional_model import conditioned
from subgraft.data.text.features import Features
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.conditioning.settings import ConditioningSettings
from subgraft.modeling.conditioning.sources import FeatureSource
from subgraft.modeling.families import family_named
from subgraft.modeling.inference.write_text import Writer
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.causal import set_bos_token
from subgraft.training.objectives.compute.conditioned import SourcedLines, SourcedLoss

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
PLACES = 3


def _split(path: Path, places: np.ndarray, count: int, seed: int) -> list[str]:
    """A file of `features` [count, 3, 64 + 3], pixels and which of the three it is, and each number in words."""
    digits, chooser = load_digits(), np.random.default_rng(seed)
    chosen = chooser.choice(places, (count, PLACES))
    pixels = digits.data[chosen] / 16.0
    order = np.broadcast_to(np.eye(PLACES), (count, PLACES, PLACES))
    save_file({"features": np.concatenate([pixels, order], axis=2).astype(np.float32)}, path)
    return [" ".join(WORDS[digit] for digit in digits.target[row]) for row in chosen]


@pytest.mark.slow
def test_three_images_of_digits_are_written_in_words(tmp_path: Path) -> None:
    places = np.random.default_rng(0).permutation(len(load_digits().target))
    train = _split(tmp_path / "train.safetensors", places[:1400], 1200, 1)
    test = _split(tmp_path / "test.safetensors", places[1400:], 60, 2)
    tokenizer = learn(train, kind="unigram", size=30)
    shape = GPT2Settings(d_model=48, layers=2, attention_heads=4, ffn_dim=96, max_positions=32, dropout=0.0)
    source = {"kind": "features", "features": 64 + PLACES}
    settings = ConditioningSettings.model_validate({"variant": "pseudo-self", "source": source})
    untrained = family_named("gpt2").build(shape, tokenizer, tokenizer, 1)
    bundle = Bundle(conditioned(untrained, settings, seed=1), tokenizer, tokenizer)
    separator = tokenizer.special["eos"]
    set_bos_token(bundle.model, separator)
    features = FeatureSource(64 + PLACES).encode(Features.open(tmp_path / "train.safetensors", examples=len(train)))
    _train(SourcedLoss(bundle.model), SourcedLines(train, features, bundle, separator, 32), steps=400)
    bundle.save(tmp_path / "model")
    loaded = Bundle.load(tmp_path / "model")
    inputs = FeatureSource(64 + PLACES).encode(Features.open(tmp_path / "test.safetensors", examples=len(test)))
    written = Writer(loaded, MeasurementSettings(beam=2), max_tokens=30)(inputs)
    right = np.mean([one == other for one, other in zip(written, test, strict=True)])
    others = np.mean([one == other for one, other in zip(written, test[1:] + test[:1], strict=True)])
    assert right > 0.5 and others < 0.1


def _train(loss: SourcedLoss, data: SourcedLines, steps: int) -> None:
    loss.train()
    optimizer = torch.optim.AdamW(loss.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, steps)
    chooser = np.random.default_rng(3)
    for _ in range(steps):
        batch = data.batch(chooser.choice(len(data.lengths), 64), 0)
        optimizer.zero_grad()
        (loss(batch)["loss"] / batch.counts["loss"]).backward()
        optimizer.step()
        schedule.step()
