"""At which share of the learning rate each parameter of a real model is trained."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from transformers import PreTrainedModel

from subgraft.config.training import FinetuneSettings, TrainingSettings
from subgraft.modeling.sides import tables_of
from subgraft.training.objectives.compute.seq2seq import Seq2SeqLoss
from subgraft.training.parameter_groups import Layers, ParameterRates
from toys import bert, gpt2, marian, mbart

DECAY = 0.5


def factors(model: PreTrainedModel, rates: ParameterRates) -> dict[str, float]:
    """By the names that a loss's parameters have, the model's behind `model.`."""
    module = Seq2SeqLoss(model, 0.0)
    by_id = {id(p): group["learning_rate_factor"] for group in rates.groups(module) for p in group["params"]}
    return {name: by_id[id(p)] for name, p in module.named_parameters() if p.requires_grad}


def test_without_rates_of_their_own_all_are_one_group_in_the_model_s_order() -> None:
    model = marian()
    (group,) = ParameterRates().groups(model)
    assert group["learning_rate_factor"] == 1.0
    assert [id(p) for p in group["params"]] == [id(p) for p in model.parameters() if p.requires_grad]


@pytest.mark.parametrize("build", [marian, mbart])
def test_an_encoder_and_a_decoder_have_a_top_each(build: Callable[[], PreTrainedModel]) -> None:
    """One encoder layer, two decoder layers."""
    model = build()
    by_name = factors(model, ParameterRates(layer_decay=DECAY))
    for name, factor in by_name.items():
        if ".encoder.layers.0." in name or ".decoder.layers.1." in name:
            assert factor == 1.0, name
        elif ".decoder.layers.0." in name:
            assert factor == DECAY, name
    tables = {name: by_name[name] for name in by_name if name.endswith(("embed_tokens.weight", "shared.weight"))}
    assert tables and all(factor == (DECAY if ".encoder." in name else DECAY**2) for name, factor in tables.items()), (
        tables
    )
    assert len(set(by_name.values())) == 3


@pytest.mark.parametrize(("build", "layer"), [(bert, "model.bert.encoder.layer"), (gpt2, "model.transformer.h")])
def test_a_single_stack_falls_from_its_top_to_the_embeddings(build: Callable[[], PreTrainedModel], layer: str) -> None:
    model = build()
    depth = model.config.num_hidden_layers
    by_name = factors(model, ParameterRates(layer_decay=DECAY))
    for number in range(depth):
        of_layer = {factor for name, factor in by_name.items() if name.startswith(f"{layer}.{number}.")}
        assert of_layer == {DECAY ** (depth - 1 - number)}
    embeddings = [
        factor for name, factor in by_name.items() if "embeddings" in name or ".wte." in name or ".wpe." in name
    ]
    assert embeddings and set(embeddings) == {DECAY**depth}
    rest = [
        f for n, f in by_name.items() if layer not in n and not any(e in n for e in ("embeddings", ".wte.", ".wpe."))
    ]
    assert rest and set(rest) == {1.0}


def test_tables_keep_the_rate_of_their_own_whatever_the_layers_have() -> None:
    model = marian()
    settings = FinetuneSettings(
        epochs=1, batch_size=9, learning_rate=0.1, embedding_learning_rate=0.4, layer_decay=DECAY, warmup_steps=1
    )
    tables = list(tables_of(model, ["decoder"]).values())
    groups = ParameterRates.of(settings, tables).groups(model)
    assert math.isclose(groups[-1]["learning_rate_factor"], 4.0)
    assert {id(p) for p in groups[-1]["params"]} == {id(table) for table in tables if table.requires_grad}
    assert sum(len(group["params"]) for group in groups) == sum(1 for p in model.parameters() if p.requires_grad)


def test_outer_layers_are_those_at_either_end_of_each_stack() -> None:
    names = [
        f"m.{stack}.layers.{layer}.w" for stack, depth in (("encoder", 5), ("decoder", 3)) for layer in range(depth)
    ]
    layers = Layers.of([*names, "m.shared.weight", "m.lm_head.weight"])
    inner = [name for name in (*names, "m.shared.weight", "m.lm_head.weight") if layers.is_inner(name, 1)]
    assert inner == ["m.encoder.layers.1.w", "m.encoder.layers.2.w", "m.encoder.layers.3.w", "m.decoder.layers.1.w"]
    assert [name for name in names if layers.is_inner(name, 2)] == ["m.encoder.layers.2.w"]
    with pytest.raises(ValueError, match="outer_layers needs `train: all` or body, not adapters"):
        FinetuneSettings(epochs=1, batch_size=9, learning_rate=0.1, warmup_steps=1, train="adapters", outer_layers=2)


def test_settings_that_have_no_such_rates_leave_all_at_the_whole() -> None:
    settings = TrainingSettings(epochs=1, batch_size=9, learning_rate=0.1, warmup_steps=1)
    assert ParameterRates.of(settings, []) == ParameterRates([])


def test_a_table_that_sides_share_lies_below_the_deeper_stack() -> None:
    names = ["m.shared.weight", "m.encoder.layers.0.a", "m.encoder.layers.5.a", "m.decoder.layers.2.a", "m.lm_head.w"]
    layers = Layers.of(names)
    assert [layers.below_top(name) for name in names] == [6, 5, 0, 0, 0]
    assert layers.below_top("m.decoder.embed_positions.weight") == 3
