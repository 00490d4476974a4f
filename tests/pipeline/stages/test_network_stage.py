"""A network from corpora to the transferred model, for both sides, several objectives and more than one task."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from small_experiments import perform_step, planned, tiny, written
from subgraft.base.errors import UserError
from subgraft.embeddings.generators.network import load_network
from subgraft.experiments.steps.system import SystemSteps
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from subgraft.orchestration.store.step import Step, in_order
from subgraft.orchestration.store.store import Store

CONFIG = tiny(
    downstream="{corpus: downstream, vocabulary: {size: 110, byte_fallback: false}}",
    sides="[encoder, decoder]",
    pretrain="{max_steps: 3, batch_size: 500, precision: fp32, dev_sentences: 2}",
    network="{width: 8, layers: 1, domains: 2, sentences: 60, vocabulary_size: [4.0, 6.0], negatives: 10}",
    network_training="{max_steps: 4, batch_size: 300, max_length: 40, learning_rate: 0.01, precision: fp32}",
    systems="""
      - {name: mean, initialiser: mean}
      - {name: network, initialiser: network, kd_weight: 0.5}
    """,
)
BOTH = "upstream.objectives=[{kind: translation}, {kind: denoising}]"
MBART = (
    BOTH,
    "model={family: mbart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}",
    "upstream.vocabulary={size: 110, byte_fallback: false}",
)
MASKED = (
    "upstream={corpus: upstream, objectives: [{kind: masked}], vocabulary: {kind: wordpiece, size: 150}}",
    "downstream={corpus: downstream, vocabulary: {kind: wordpiece, size: 200}}",
    "model={family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16}",
)


def _made(step: Step, home: Path) -> Path:
    for each in in_order([step]):
        perform_step(each, home)
    return Store(home).path(step)


def _systems(config: Path, *overrides: str) -> dict[str, SystemSteps]:
    pipeline = planned(config, *overrides)
    return {steps.system.name: steps for steps in pipeline.systems}


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param((), id="translation"),
        pytest.param(MBART, id="two objectives", marks=pytest.mark.slow),
        pytest.param(MASKED, id="masked", marks=pytest.mark.slow),
    ],
)
def test_rows_of_both_sides_are_made_by_what_was_trained(tmp_path: Path, overrides: tuple[str, ...]) -> None:
    systems, home = _systems(written(tmp_path, CONFIG), *overrides), tmp_path / "home"
    network, mean = systems["network"], systems["mean"]
    assert network.transfer is not None and mean.transfer is not None and network.generator is not None
    ours, theirs = (Bundle.load(_made(steps.transfer, home)) for steps in (network, mean) if steps.transfer)
    networks = Store(home).path(network.generator)
    for name in ("encoder", "decoder"):
        load_network(networks, name)
        one, two = (side(bundle.model, name).input.weight for bundle in (ours, theirs))
        differing = (one != two).any(dim=1)
        assert differing.any() and not differing.all()  # new rows differ, those of seen tokens do not
        assert torch.isfinite(one).all()


def test_one_network_serves_every_task(tmp_path: Path) -> None:
    """No task is part of its fingerprint, whatever vocabulary the task brings."""
    config = written(tmp_path, CONFIG)
    one, two = (
        _systems(config, f"downstream.vocabulary.size={size}", f"downstream.corpus={corpus}")["network"].generator
        for size, corpus in ((100, "downstream"), (120, "upstream"))
    )
    assert one is not None and two is not None
    assert one.fingerprint == two.fingerprint


def test_the_same_recipe_makes_the_same_bytes(tmp_path: Path) -> None:
    config = written(tmp_path, CONFIG)
    made = []
    for home in ("one", "two"):
        step = _systems(config)["network"].generator
        assert step is not None
        made.append((_made(step, tmp_path / home) / "network.safetensors").read_bytes())
    assert made[0] == made[1]


def test_a_network_that_was_trained_before_makes_the_same_rows(tmp_path: Path) -> None:
    """As `subgraft generator train` leaves it: its step needs no upstream text."""
    config, home = written(tmp_path, CONFIG), tmp_path / "home"
    trained = _systems(config)["network"]
    assert trained.generator is not None and trained.transfer is not None
    rows = _made(trained.transfer, home) / "model.safetensors"
    shutil.copytree(Store(home).path(trained.generator), tmp_path / "kept")
    reused = _systems(config, "network.trained=kept")["network"]
    assert reused.generator is not None and reused.transfer is not None
    assert reused.generator.stage.stage_name == "imported-network" and not reused.generator.inputs
    assert (_made(reused.transfer, home) / "model.safetensors").read_bytes() == rows.read_bytes()
    (tmp_path / "kept" / "network.safetensors").unlink()
    with pytest.raises(UserError, match="no trained network here"):
        _systems(config, "network.trained=kept")


def test_a_trained_network_of_one_side_is_refused_where_both_need_one(tmp_path: Path) -> None:
    """At the import, before any training."""
    config, home = written(tmp_path, CONFIG), tmp_path / "home"
    shared = (*MBART, "downstream={corpus: downstream, shared: true, vocabulary: {size: 110, byte_fallback: false}}")
    step = _systems(config, *shared)["network"].generator
    assert step is not None
    trained = tmp_path / "trained"
    shutil.copytree(_made(step, home), trained)
    described = json.loads((trained / "generator.json").read_text())
    del described["sides"]["encoder"]
    (trained / "generator.json").write_text(json.dumps(described))
    imported = _systems(config, *shared, "network.trained=trained")["network"].generator
    assert imported is not None
    with pytest.raises(UserError, match="encoder"):
        _made(imported, home)
