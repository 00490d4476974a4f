"""What a configuration says of a model's parameters is what the model has."""

from __future__ import annotations

import pytest
from transformers import MBartConfig, PreTrainedModel

from subgraft.config.training import ModelSettings
from subgraft.models.bert2bert import assemble
from subgraft.models.build import build_bert, build_marian, build_mbart
from subgraft.models.parameter_count import (
    Parameters,
    as_both_sides,
    count_parameters,
    described,
    with_vocabularies,
)
from subgraft.transplanting.transplant import Method, transplant
from toys import SHAPE, cased_tokenizer, english_tokenizer, fitted_tokenizer, german_tokenizer, multilingual_tokenizer


def _has(model: PreTrainedModel) -> Parameters:
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    return Parameters(model.num_parameters(), trained)


def test_new_models() -> None:
    source, target, one, cased = english_tokenizer(), german_tokenizer(), multilingual_tokenizer(), cased_tokenizer()
    marian = ModelSettings(family="marian", **SHAPE)
    assert count_parameters(described(marian, len(source), len(target))) == _has(
        build_marian(source, target, seed=1, **SHAPE)
    )
    mbart = ModelSettings(family="mbart", **SHAPE)
    assert count_parameters(described(mbart, len(one), len(one))) == _has(build_mbart(one, seed=1, **SHAPE))
    shape = SHAPE | {"decoder_layers": 1}
    bert = described(ModelSettings(family="bert", **shape), len(cased), len(cased))
    built = build_bert(cased, seed=1, **shape)
    assert count_parameters(bert) == _has(built)
    assert count_parameters(as_both_sides(bert)) == _has(assemble(built, cased, seed=1))  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["marian", "mbart", "bert"])
def test_transferred_models(family: str) -> None:
    """By the configuration of the model itself, as it is written to disk."""
    old = multilingual_tokenizer()
    if family == "bert":
        old = cased_tokenizer()
        model: PreTrainedModel = assemble(build_bert(old, seed=1, **SHAPE), old, seed=1)  # type: ignore[arg-type]
        new = german_tokenizer(120, "wordpiece")
    else:
        model = build_mbart(old, seed=1, **SHAPE) if family == "mbart" else build_marian(old, old, seed=1, **SHAPE)
        new = fitted_tokenizer()
    config = model.config.to_dict()
    expected = count_parameters(with_vocabularies(config, {"decoder": len(new)}))
    assert expected == _has(transplant(model, {"decoder": old}, {"decoder": new}, Method("mean")).model)


@pytest.mark.parametrize("family", ["marian", "mbart"])
def test_frozen_tables_are_held_and_not_trained(family: str) -> None:
    """A table that is input and output, or both sides', counts once."""
    source, target = english_tokenizer(), german_tokenizer()
    one = multilingual_tokenizer()
    model = build_marian(source, target, seed=1, **SHAPE) if family == "marian" else build_mbart(one, seed=1, **SHAPE)
    whole = _has(model)
    rows = len(target) if family == "marian" else len(one)
    frozen = count_parameters(model.config.to_dict(), ["decoder"])
    assert frozen == Parameters(whole.total, whole.trained - rows * SHAPE["d_model"])


def test_mbart_large_has_its_610_million() -> None:
    config = MBartConfig(vocab_size=250_027).to_dict()
    assert 610_000_000 < count_parameters(config).total < 611_500_000
    # With a decoder's vocabulary of its own, encoder and decoder have a table each.
    split = count_parameters(with_vocabularies(config, {"decoder": 32_000})).total
    assert split == count_parameters(config).total + 32_000 * 1024
