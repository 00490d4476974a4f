"""Generators whose training simulates tokens like the task's own, from corpora to the transferred model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from small_experiments import finish_steps, planned, tiny, written
from subgraft.embeddings.generators.generator import load_generator
from subgraft.experiments.steps.system import SystemSteps
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import shares_table, side
from subgraft.orchestration.store.store import Store
from subgraft.pipeline.measurements.intrinsic import QUALITY

CONFIG = tiny(
    downstream="{corpus: downstream, vocabulary: {size: 110, byte_fallback: false}}",
    sides="[encoder, decoder]",
    pretrain="{max_steps: 3, batch_size: 500, precision: fp32, dev_sentences: 2}",
    generator="{resegmentation: {match: downstream}, negatives: batch, initial_weights: normal}",
    generator_training="{max_steps: 3, batch_size: 300, max_length: 30, precision: fp32}",
    systems="""
      - {name: plain, vocabulary: upstream}
      - {name: patt, initialiser: patt, kd_weight: 0.5}
    """,
)
MASKED = (
    "upstream={corpus: upstream, objectives: [{kind: masked}], vocabulary: {kind: wordpiece, size: 150}}",
    "downstream={corpus: downstream, vocabulary: {kind: wordpiece, size: 200}}",
    "model={family: bert, d_model: 16, layers: 1, attention_heads: 2, ffn_dim: 16}",
)
ONE_TABLE = (
    "upstream.objectives=[{kind: denoising}]",
    "downstream={corpus: downstream, shared: true, vocabulary: {size: 150, byte_fallback: false}}",
    "model={family: mbart, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}",
    "intrinsic={tokens: 10}",
)


def made(place: Path, overrides: Sequence[str] = ()) -> tuple[SystemSteps, Store]:
    """The system `patt` up to its transfer and the measurement of its rows, where there is one."""
    config = written(place, CONFIG)
    system = next(steps for steps in planned(config, *overrides).systems if steps.system.name == "patt")
    return system, finish_steps(
        [each for each in (system.transfer, system.measured.get("intrinsic")) if each], config.parent
    )


@pytest.fixture(scope="module", params=["translation", pytest.param("masked", marks=pytest.mark.slow)])
def transferred(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[SystemSteps, Store]:
    return made(tmp_path_factory.mktemp(request.param), MASKED if request.param == "masked" else ())


def test_embeddings_that_stay_shared_train_one_generator_for_both_sides(tmp_path: Path) -> None:
    system, store = made(tmp_path, ONE_TABLE)
    assert system.generator is not None and system.transfer is not None
    one, two = (load_generator(store.path(system.generator), name)[0] for name in ("encoder", "decoder"))
    assert all(torch.equal(weight, two.state_dict()[key]) for key, weight in one.state_dict().items())
    assert [path.name for path in store.path(system.generator).glob("curve*")] == ["curve.decoder.json"]
    assert set(json.loads((store.path(system.measured["intrinsic"]) / QUALITY).read_text())) == {"decoder"}
    assert shares_table(Bundle.load(store.path(system.transfer)).model)


def test_a_bert_with_one_new_vocabulary_gets_the_rows_of_both_sides(tmp_path: Path) -> None:
    """Its generator is trained on one table, but the encoder-decoder made of it has one for each side."""
    system, store = made(tmp_path, (*MASKED, "downstream.shared=true"))
    assert system.transfer is not None
    model = Bundle.load(store.path(system.transfer)).model
    assert not shares_table(model)
    encoder, decoder = (side(model, name).input.weight for name in ("encoder", "decoder"))
    # MKL's products depend on where tables lie in memory, on some processors.
    torch.testing.assert_close(encoder, decoder, rtol=1e-4, atol=1e-6)


def test_the_generator_is_made_from_the_tasks_vocabularies(transferred: tuple[SystemSteps, Store]) -> None:
    system, _ = transferred
    assert system.generator is not None and system.transfer is not None
    for name in ("encoder", "decoder"):
        assert system.generator.inputs[f"vocabulary/{name}"] is system.transfer.inputs[f"vocabulary/{name}"]


def test_its_weights_were_drawn_and_trained(transferred: tuple[SystemSteps, Store]) -> None:
    """Three steps of a small rate lead away from what was drawn, but not far."""
    system, store = transferred
    assert system.generator is not None
    generator, _ = load_generator(store.path(system.generator), "encoder")
    trained = generator.weight.detach().clone()
    generator.draw(2 * system.generator.stage.seed)  # type: ignore[attr-defined]
    assert 0 < (trained - generator.weight.detach()).abs().max() < 0.1
