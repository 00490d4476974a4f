"""The embeddings, bias and states of a model's sides, its dropout, and their replacement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    BertForMaskedLM,
    BlenderbotConfig,
    BlenderbotModel,
    GPT2Model,
    MarianConfig,
    MarianMTModel,
    MBartForConditionalGeneration,
    PreTrainedModel,
)

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName
from subgraft.modeling.families.split_mbart import SplitMBartForConditionalGeneration
from subgraft.modeling.sides import (
    RATES,
    Tables,
    replace_tables,
    set_hidden_dropout,
    shares_table,
    side,
    side_names,
    without_dropout,
)
from toys import bert, bert2bert, generated, gpt2, marian, mbart, output_bias

BERT2BERTS = [bert2bert, lambda: bert2bert(tied=False)]
SOURCES = torch.tensor([[5, 9, 7, 2]])
TARGETS = torch.tensor([[1, 6, 8]])


def untied(build: Callable[[], PreTrainedModel]) -> PreTrainedModel:
    """The same kind of model with three tables of its own."""
    model = build()
    config = type(model.config)(**{**model.config.to_dict(), "tie_word_embeddings": False})
    torch.manual_seed(4)
    separate: PreTrainedModel = type(model)(config).eval()
    if hasattr(separate, "final_logits_bias"):
        output_bias(separate).normal_()
    return separate


def tables(model: PreTrainedModel, name: SideName) -> Tables:
    """A side's own tables, as new ones."""
    result = side(model, name)
    output = None if result.output is None or result.tied else result.output.weight.detach().clone()
    bias = None if result.bias is None else result.bias.detach().clone().flatten()
    return Tables(result.input.weight.detach().clone(), output, bias, result.padding_id)


def logits(model: PreTrainedModel) -> torch.Tensor:
    if "encoder" not in side_names(model):
        result: torch.Tensor = model(TARGETS).logits
    else:
        result = model(SOURCES, decoder_input_ids=TARGETS).logits
    return result


def test_sides_are_the_models_own_tensors() -> None:
    model = marian()
    encoder, decoder = side(model, "encoder"), side(model, "decoder")
    assert encoder.input is model.model.encoder.embed_tokens
    assert encoder.output is None
    assert decoder.input is model.model.decoder.embed_tokens
    assert decoder.output is model.lm_head
    assert decoder.bias is output_bias(model)
    assert decoder.tied
    assert not side(untied(marian), "decoder").tied
    assert not shares_table(model)
    assert shares_table(mbart())
    assert not shares_table(untied(mbart))
    assert side(gpt2(), "decoder").bias is None


def test_a_bert_is_read_as_both_sides_of_the_model_made_from_it() -> None:
    model = bert()
    decoder = side(model, "decoder")
    assert shares_table(model) and decoder.tied
    assert side(model, "encoder").input is decoder.input is model.bert.embeddings.word_embeddings
    assert decoder.output is model.cls.predictions.decoder
    assert decoder.bias is model.cls.predictions.bias
    made = bert2bert()
    assert not shares_table(made)
    for name in ("encoder", "decoder"):
        assert torch.equal(side(made, name).input.weight, decoder.input.weight)
    result = side(made, "decoder")
    assert result.tied and result.bias is made.get_parameter("decoder.cls.predictions.bias")
    assert result.output is not None and result.transform is not None
    memory = made.get_submodule("encoder")(SOURCES).last_hidden_state
    states = made.get_submodule("decoder.bert")(TARGETS, encoder_hidden_states=memory).last_hidden_state
    assert torch.equal(result.output(result.transform(states)), logits(made))


def test_unknown_families_and_sides_are_refused_with_the_known_ones() -> None:
    config = BlenderbotConfig(vocab_size=9, d_model=32, encoder_layers=1, decoder_layers=1)
    with pytest.raises(UserError, match=r"bart, bert, .*, gpt2, gpt_neox, .*llama, .*, qwen2"):
        side(BlenderbotModel(config), "encoder")
    with pytest.raises(UserError, match=r"has no encoder\n.*decoder"):
        side(gpt2(), "encoder")


@pytest.mark.parametrize("names", [["decoder"], ["encoder"], ["encoder", "decoder"]])
@pytest.mark.parametrize("build", [marian, mbart, lambda: untied(marian), lambda: untied(mbart), *BERT2BERTS])
def test_its_own_tables_put_back_change_no_logit(build: Callable[[], PreTrainedModel], names: list[SideName]) -> None:
    model = build()
    expected, was_tied = logits(model), side(model, "decoder").tied
    rebuilt = replace_tables(model, {name: tables(model, name) for name in names})
    assert torch.equal(logits(rebuilt), expected)
    assert side(rebuilt, "decoder").tied == was_tied
    assert not any(parameter.is_meta for parameter in rebuilt.parameters())
    assert not shares_table(rebuilt), "tables given apart stay apart"
    assert not rebuilt.training


@pytest.mark.parametrize("build", [gpt2, lambda: untied(gpt2)])
def test_a_decoder_alone_gets_its_own_tables_back(build: Callable[[], PreTrainedModel]) -> None:
    model = build()
    expected, was_tied = logits(model), side(model, "decoder").tied
    rebuilt = replace_tables(model, {"decoder": tables(model, "decoder")})
    assert torch.equal(logits(rebuilt), expected)
    assert side(rebuilt, "decoder").tied == was_tied


def grown(inputs: Tables, rows: int) -> Tables:
    """With rows appended."""

    def pad(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else torch.cat([tensor, torch.full((rows, *tensor.shape[1:]), 0.1)])

    bigger = pad(inputs.input)
    assert bigger is not None
    return Tables(bigger, pad(inputs.output), pad(inputs.bias), inputs.padding_id)


@pytest.mark.parametrize("build", [marian, mbart, gpt2, lambda: untied(marian), lambda: untied(mbart), *BERT2BERTS])
def test_a_larger_decoder_table_is_trained_and_generated_with(build: Callable[[], PreTrainedModel]) -> None:
    model = build()
    expected = logits(model)
    rebuilt = replace_tables(model, {"decoder": grown(tables(model, "decoder"), 3)})
    result = logits(rebuilt)
    assert result.shape[-1] == expected.shape[-1] + 3
    assert torch.allclose(result[..., :-3], expected, atol=1e-6)
    rebuilt.train()
    logits(rebuilt).square().sum().backward()
    assert side(rebuilt, "decoder").input.weight.grad is not None
    rebuilt.eval()
    if rebuilt.config.is_encoder_decoder:
        bias = side(rebuilt, "decoder").bias
        assert bias is not None
        bias.detach().view(-1)[-1] = 100.0
        made = generated(rebuilt, SOURCES, num_beams=2, max_length=5, decoder_start_token_id=1)
        assert expected.shape[-1] + 2 in made[0].tolist()


def test_an_mbart_stays_one_only_where_both_sides_are_given_one_table() -> None:
    model = mbart()
    bigger = grown(tables(model, "decoder"), 2)
    assert isinstance(replace_tables(model, {"decoder": bigger}), SplitMBartForConditionalGeneration)
    encoder = Tables(bigger.input, None, None, bigger.padding_id)
    whole = replace_tables(mbart(), {"encoder": encoder, "decoder": bigger})
    assert type(whole) is MBartForConditionalGeneration
    assert shares_table(whole)
    assert whole.lm_head.weight is whole.model.shared.weight
    assert whole.config.vocab_size == len(bigger.input)
    assert logits(whole).shape[-1] == len(bigger.input)


def test_a_marian_that_shared_its_table_is_separated() -> None:
    own = marian()
    described = {**own.config.to_dict(), "share_encoder_decoder_embeddings": True, "decoder_vocab_size": None}
    shared = MarianMTModel(MarianConfig(**described))
    shared.eval()
    assert shares_table(shared)
    expected = logits(shared)
    rebuilt = replace_tables(shared, {"decoder": tables(shared, "decoder")})
    assert not shares_table(rebuilt)
    assert not rebuilt.config.share_encoder_decoder_embeddings
    assert torch.equal(logits(rebuilt), expected)


def test_sides_may_pad_with_different_ids_but_not_beyond_the_encoders_table() -> None:
    model = marian()
    own = tables(model, "decoder")
    rebuilt = replace_tables(model, {"decoder": Tables(own.input, own.output, own.bias, 4)})
    assert (side(rebuilt, "encoder").padding_id, side(rebuilt, "decoder").padding_id) == (1, 4)
    with pytest.raises(UserError, match="outside the encoder's vocabulary"):
        replace_tables(marian(), {"decoder": Tables(own.input, own.output, own.bias, 85)})


@pytest.mark.parametrize("build", [marian, mbart, gpt2])
def test_training_mode_computes_what_evaluation_mode_does(build: Callable[[], PreTrainedModel]) -> None:
    model = build()
    ids = torch.arange(5, 17).reshape(2, 6)
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if "encoder" in side_names(model) else {})
    expected = model(**inputs).logits
    assert not torch.equal(model.train()(**inputs).logits, expected), "the toys have dropout"
    assert torch.equal(without_dropout(model).train()(**inputs).logits, expected)


def rates(model: nn.Module) -> list[tuple[str, float]]:
    """Every rate in a model, by its place."""
    result = []
    for place, module in model.named_modules():
        numbers = {name: getattr(module, name) for name in RATES if isinstance(getattr(module, name, None), float)}
        result += [(f"{place}.{name}", number) for name, number in numbers.items()]
        result += [(place, module.p)] if isinstance(module, nn.Dropout) else []
    return result


@pytest.mark.parametrize("kind", [MarianMTModel, MBartForConditionalGeneration, BertForMaskedLM, GPT2Model])
def test_hidden_dropout_is_set_to_what_a_model_built_with_it_has(kind: type[PreTrainedModel]) -> None:
    """And attention's dropout, which begins otherwise, stays."""

    def built(rate: float) -> PreTrainedModel:
        sizes = {"d_model": 16, "hidden_size": 16, "num_hidden_layers": 2, "encoder_layers": 2, "decoder_layers": 2}
        heads = {"num_attention_heads": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "n_head": 2}
        hidden = dict.fromkeys(("dropout", "hidden_dropout_prob", "resid_pdrop", "embd_pdrop", "dropout_rate"), rate)
        attention = dict.fromkeys(("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop"), 0.3)
        own = {"n_embd": 16, "n_layer": 2} if kind is GPT2Model else sizes
        tokens = {"pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 1, "decoder_start_token_id": 0}
        config_class: Any = kind.config_class
        config = config_class(vocab_size=20, **own, **heads, **hidden, **attention, **tokens)
        return kind(config)

    model = built(0.1)
    before = rates(model)
    set_hidden_dropout(model, 0.05)
    assert rates(model) == rates(built(0.05)) != before
