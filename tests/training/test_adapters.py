"""Adapters: one for every projection of every family, as many as estimated, and merged into the same function."""

from __future__ import annotations

from functools import partial
from importlib import util
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.config.training import AdapterSettings
from subgraft.modeling.families import family_of
from subgraft.modeling.sides import set_hidden_dropout, side_names, tables_of
from subgraft.training.adapters import Adapters
from toys import bert2bert, gpt2, llama, m2m100, marian, mbart, t5

MODELS: dict[str, Any] = {
    "marian": marian,
    "mbart": mbart,
    "m2m_100": m2m100,
    "bert2bert": bert2bert,
    "gpt2": gpt2,
    "llama": llama,
    "t5": t5,
    "t5 1.1": partial(t5, tied=False),
}
SETTINGS = AdapterSettings(rank=3, alpha=6.0)
IDS = torch.tensor([[5, 6, 7, 8], [9, 10, 11, 12]])


def logits(model: PreTrainedModel) -> Tensor:
    decoder = {"decoder_input_ids": IDS[:, :3]} if len(side_names(model)) > 1 else {}
    with torch.no_grad():
        values: Tensor = model(input_ids=IDS, **decoder).logits
    return values


def trained(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize("name", MODELS)
def test_every_projection_has_one_and_they_are_merged_into_it(name: str) -> None:
    model: PreTrainedModel = MODELS[name]().eval()
    config, before = model.config.to_dict(), {key: value.clone() for key, value in model.state_dict().items()}
    plain, tables = logits(model), {id(table) for table in tables_of(model, side_names(model)).values()}
    adapters = Adapters(model, SETTINGS, seed=1)
    projections = family_of(model).projections(config)
    foreseen = sum(SETTINGS.rank * (each.inputs + each.outputs) * each.times for each in projections)
    assert sum(parameter.numel() for parameter in trained(model).values()) == foreseen
    assert sum(module.endswith("lora_A") for module, _ in model.named_modules()) == sum(p.times for p in projections)
    assert not tables & {id(parameter) for parameter in trained(model).values()}
    assert torch.equal(logits(model), plain), "B is zero: nothing is added yet"
    torch.manual_seed(2)
    with torch.no_grad():
        for parameter in trained(model).values():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    unmerged = logits(model)
    assert not torch.allclose(unmerged, plain, atol=1e-3)
    adapters.merge()
    torch.testing.assert_close(logits(model), unmerged, rtol=1e-4, atol=1e-5)
    after = model.state_dict()
    assert after.keys() == before.keys() and model.config.to_dict() == config
    changed = [key for key in after if not torch.equal(after[key], before[key])]
    assert len(changed) == sum(projection.times for projection in projections)
    assert {id(table) for table in tables_of(model, side_names(model)).values()} == tables


def test_every_linear_map_of_a_layer_is_adapted() -> None:
    """What is not: output projections, and a head's transform."""
    for name, make in MODELS.items():
        model = make()
        linear = [key for key, module in model.named_modules() if type(module).__name__ in ("Linear", "Conv1D")]
        names = tuple(f".{projection.name}" for projection in family_of(model).projections(model.config.to_dict()))
        left = [key for key in linear if not key.endswith(names)]
        expected = {"lm_head"} if name != "bert2bert" else {"decoder", "dense"}
        assert {key.rpartition(".")[2] for key in left} == expected, name


def test_they_are_initialised_from_the_seed_without_consuming_random_numbers() -> None:
    torch.manual_seed(7)
    state = torch.get_rng_state()
    one, two, other = (mbart() for _ in range(3))
    for model, seed in ((one, 1), (two, 1), (other, 2)):
        Adapters(model, SETTINGS, seed)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, trained(two)[name]) for name, tensor in trained(one).items())
    assert any(not torch.equal(tensor, trained(other)[name]) for name, tensor in trained(one).items())


def test_their_dropout_is_their_own() -> None:
    model = marian()
    Adapters(model, AdapterSettings(rank=2, dropout=0.25), seed=1)
    set_hidden_dropout(model, 0.5)
    own = [module.default.p for name, module in model.named_modules() if name.endswith("lora_dropout")]
    assert own and set(own) == {0.25}


def test_without_peft_one_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "subgraft.modeling.lora.find_spec", lambda name: None if name == "peft" else util.find_spec(name)
    )
    with pytest.raises(UserError, match=r"peft is not installed"):
        Adapters(marian(), SETTINGS, 1)
