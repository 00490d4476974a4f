"""Which precision a device is faster in: a layer's passes in both decide, and are reported."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import nn

from new_vocabularies import new_vocabulary, upstream
from subgraft.config.settings_base import SideName
from subgraft.config.training import NamedPrecision
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling import precision
from subgraft.modeling.families import family_of
from subgraft.modeling.precision import LayerShape, autocast, device_name, faster_precision, fuses_attention

SIDES: tuple[SideName, ...] = ("encoder", "decoder")
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "SECONDS", 0.05)


# A width that heads of 64 do not divide, and one below a head's.
@pytest.mark.parametrize("shape", [LayerShape(64, 128, 2), LayerShape(200, 300, 12), LayerShape(16, 32, 1)])
def test_it_chooses_by_what_it_reports(shape: LayerShape) -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    result = faster_precision(shape, CPU)
    assert torch.equal(torch.get_rng_state(), before), "a training's random numbers are what they were"
    assert all(0 < seconds < 60 for seconds in result.seconds.values())
    assert (result.precision == "bf16") == (result.seconds["bf16"] <= 0.9 * result.seconds["fp32"])
    assert result.device == device_name(CPU) and f"threads: {torch.get_num_threads()}" in result.device


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Shapes of all passes that are made."""
    made, pass_ = list[tuple[int, ...]](), precision._pass

    def recorded(layer: precision._Layer, states: torch.Tensor, name: NamedPrecision) -> float:
        made.append(tuple(states.shape))
        return pass_(layer, states, name)

    monkeypatch.setattr(precision, "_pass", recorded)
    return made


def test_a_batch_is_not_tried_in_bf16_where_one_sentence_takes_long(
    passes: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "HOPELESS", 0.0)
    monkeypatch.setattr(precision, "SECONDS", 1e-9)
    result = faster_precision(LayerShape(16, 32, 64), CPU)
    assert len(passes) == 8 and all(sentences == 1 for sentences, _, _ in passes)
    assert all(0 < seconds < 60 for seconds in result.seconds.values())


def test_every_pass_has_another_shape_as_every_batch_of_a_training_has(
    passes: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "HOPELESS", float("inf"))
    monkeypatch.setattr(precision, "SECONDS", 1.0)
    faster_precision(LayerShape(16, 32, 64), CPU)
    del passes[:6]  # of one sentence
    of_fp32, of_bf16 = passes[::2], passes[1::2]
    assert of_fp32 == of_bf16 and len(of_fp32) > 4
    assert all(one != other for one, other in pairwise(of_fp32))
    assert all(0.95 < sentences * length / precision.TOKENS["cpu"] <= 1 for sentences, length, _ in passes)


@pytest.mark.parametrize("family", ["marian", "mbart", "encoder-decoder"])
def test_systems_of_other_vocabularies_have_the_same_shape(family: str) -> None:
    model = upstream(family).model
    shape = LayerShape.of(model)
    config = model.config.to_dict()
    assert (shape.width, shape.inner) == (family_of(model).width(config), family_of(model).inner_width(config))
    assert shape.layers == sum(family_of(model).layers(config, side) for side in SIDES) > 1
    sides: tuple[SideName, ...] = ("decoder",) if family == "marian" else SIDES
    target = new_vocabulary(family, "decoder")
    made = transplant(model, upstream(family).tokenizers, dict.fromkeys(sides, target), Method("mean"))
    assert LayerShape.of(made.model) == shape


def test_products_have_the_precision_that_is_said() -> None:
    layer, states = nn.Linear(4, 4), torch.ones(1, 4)
    with autocast(CPU, "bf16"):
        assert layer(states).dtype == torch.bfloat16
    with autocast(CPU, "fp32"):
        assert layer(states).dtype == torch.float32
    with pytest.raises(ValueError, match="auto was not resolved"):
        autocast(CPU, "auto")
    assert fuses_attention(CPU, "fp32") and not fuses_attention(CPU, "bf16")
