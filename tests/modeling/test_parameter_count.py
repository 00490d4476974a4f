"""The formulas give the number of parameters that the model has, constructed without memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from transformers import GPT2Config, LlamaConfig, MBartConfig, PreTrainedModel

from subgraft.config.models import (
    BartSettings,
    BertSettings,
    GPT2Settings,
    LlamaSettings,
    M2M100Settings,
    MarianSettings,
    MBartSettings,
    RobertaSettings,
    T5Settings,
)
from subgraft.config.settings_base import SideName
from subgraft.contrib.ernie.settings import ErnieSettings
from subgraft.contrib.ernie3.settings import BranchedSettings
from subgraft.contrib.ernie_thu.settings import KnowledgeableSettings
from subgraft.contrib.xlnet.settings import XLNetSettings
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.families import (
    Parameters,
    as_both_sides,
    config_dict,
    count_parameters,
    family_of,
    vocabulary_sizes,
    with_vocabularies,
)
from subgraft.modeling.sides import tables_of
from toys import (
    SHAPE,
    bert2bert,
    cased_tokenizer,
    fitted_tokenizer,
    german_tokenizer,
    gpt2,
    llama,
    marian,
    mbart,
    multilingual_tokenizer,
)

WIDTHS: dict[str, Any] = {"d_model": 24, "attention_heads": 2, "ffn_dim": 40, "max_positions": 33}
TWO = {**WIDTHS, "encoder_layers": 3, "decoder_layers": 1}
ONE = {**WIDTHS, "layers": 3}
UNTIED = {"tie_word_embeddings": False}
MARIAN = config_dict(MarianSettings(**TWO), 90, 70)
MBART = config_dict(MBartSettings(**TWO), 80, 80)
BRANCHED = config_dict(
    BranchedSettings(**ONE, branch_layers=2, branch_width=8, branch_heads=4, branch_ffn_dim=20), 75, 75
)
KNOWLEDGEABLE = config_dict(KnowledgeableSettings(**ONE, knowledge_layers=2, entity_width=8, entity_heads=2), 75, 75)
BART = config_dict(BartSettings(**TWO), 80, 80)
BERT = config_dict(BertSettings(**ONE), 75, 75)
ERNIE = config_dict(ErnieSettings(**ONE), 75, 75)
GPT2_MODEL = config_dict(GPT2Settings(**ONE), 60, 60)
LLAMA = config_dict(LlamaSettings(**ONE), 65, 65)
M2M100 = config_dict(M2M100Settings(**TWO), 80, 80)
XLNET = config_dict(XLNetSettings(**ONE), 75, 75)
T5_MODEL = config_dict(T5Settings(**TWO), 55, 55)
# What is taken from a checkpoint and never built.
MT5: dict[str, Any] = {**T5_MODEL, "model_type": "mt5", "feed_forward_proj": "gated-gelu"}
QWEN2: dict[str, Any] = {**LLAMA, "model_type": "qwen2", "tie_word_embeddings": True}
QWEN3: dict[str, Any] = {**LLAMA, "model_type": "qwen3", "head_dim": 16, "num_key_value_heads": 1}
XLM_ROBERTA: dict[str, Any] = {**BERT, "model_type": "xlm-roberta", "type_vocab_size": 1, "pad_token_id": 1}
ROBERTA: dict[str, Any] = {**XLM_ROBERTA, "model_type": "roberta"}
MISTRAL: dict[str, Any] = {**LLAMA, "model_type": "mistral", "num_key_value_heads": 1}
PHI3: dict[str, Any] = {**LLAMA, "model_type": "phi3", "num_key_value_heads": 1, "pad_token_id": 0}
GEMMA: dict[str, Any] = {**LLAMA, "model_type": "gemma", "head_dim": 16, "tie_word_embeddings": True}
GEMMA2: dict[str, Any] = {**GEMMA, "model_type": "gemma2", "final_logit_softcapping": 30.0}
GEMMA3: dict[str, Any] = {**GEMMA, "model_type": "gemma3_text"}
PEGASUS: dict[str, Any] = {**MBART, "model_type": "pegasus"}
DISTILBERT: dict[str, Any] = {
    "model_type": "distilbert",
    "vocab_size": 75,
    "dim": 24,
    "hidden_dim": 40,
    "n_layers": 3,
    "n_heads": 2,
    "max_position_embeddings": 33,
}
DEBERTA: dict[str, Any] = {
    **BERT,
    "model_type": "deberta-v2",
    "type_vocab_size": 0,
    "position_biased_input": False,
    "relative_attention": True,
    "position_buckets": 8,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
}
MODERNBERT: dict[str, Any] = {**BERT, "model_type": "modernbert", "pad_token_id": 0}
OPT: dict[str, Any] = {
    "model_type": "opt",
    "vocab_size": 60,
    "hidden_size": 24,
    "word_embed_proj_dim": 24,
    "ffn_dim": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "max_position_embeddings": 33,
}
GPT_NEOX: dict[str, Any] = {**LLAMA, "model_type": "gpt_neox"}
BLOOM: dict[str, Any] = {"model_type": "bloom", "vocab_size": 60, "hidden_size": 24, "n_layer": 3, "n_head": 2}
SHARED = {**MARIAN, "share_encoder_decoder_embeddings": True, "vocab_size": 70}
CONFIGS = {
    "marian": MARIAN,
    "marian, untied": MARIAN | UNTIED,
    "marian, one table": SHARED,
    "marian, one vocabulary, untied": SHARED | UNTIED,
    "marian, other vocabulary": with_vocabularies(SHARED, {"decoder": 44}),
    "marian, sides of other shape": {**MARIAN, "encoder_ffn_dim": 16, "decoder_layers": 4},
    "mbart": MBART,
    "mbart, untied": MBART | UNTIED,
    "mbart, other vocabulary": with_vocabularies(MBART, {"decoder": 44}),
    "mbart, other vocabulary, untied": with_vocabularies(MBART | UNTIED, {"encoder": 51}),
    "mbart, twice another": with_vocabularies(with_vocabularies(MBART, {"decoder": 44}), {"decoder": 52}),
    "bert": BERT,
    "bert, untied": BERT | UNTIED,
    "bert, other vocabulary": with_vocabularies(BERT, {"encoder": 44, "decoder": 44}),
    "bert, one segment": {**BERT, "type_vocab_size": 1},
    "ernie": ERNIE,
    "ernie, tasks": config_dict(ErnieSettings(**ONE, task_embeddings=5), 75, 75),
    "ernie, tasks of another size": {**ERNIE, "use_task_id": True},
    "ernie on both sides": as_both_sides(config_dict(ErnieSettings(**ONE, task_embeddings=5), 75, 75)),
    "bert2bert": as_both_sides(BERT),
    "branched": BRANCHED,
    "branched, untied": BRANCHED | UNTIED,
    "knowledgeable": KNOWLEDGEABLE,
    "knowledgeable, untied": KNOWLEDGEABLE | UNTIED,
    "bert2bert, untied": as_both_sides(BERT | UNTIED),
    "bert2bert, other vocabulary": with_vocabularies(as_both_sides(BERT), {"decoder": 44}),
    "xlm-roberta": XLM_ROBERTA,
    "xlm-roberta on both sides": as_both_sides(XLM_ROBERTA),
    "bart": BART,
    "bart, other vocabulary": with_vocabularies(BART, {"encoder": 44, "decoder": 44}),
    "mt5": MT5,
    "mt5, other vocabulary": with_vocabularies(MT5, {"encoder": 44, "decoder": 44}),
    "qwen2": QWEN2,
    "qwen3": QWEN3,
    "roberta": ROBERTA,
    "roberta, new": config_dict(RobertaSettings(**ONE), 75, 75),
    "roberta on both sides": as_both_sides(ROBERTA),
    "distilbert": DISTILBERT,
    "distilbert, untied": DISTILBERT | UNTIED,
    "distilbert, other vocabulary": with_vocabularies(DISTILBERT, {"encoder": 44, "decoder": 44}),
    "deberta-v2": DEBERTA,
    "deberta-v2, the older head": {**DEBERTA, "legacy": True},
    "deberta-v2, untied": {**DEBERTA, "legacy": True} | UNTIED,
    "deberta-v2, keys of positions": {**DEBERTA, "share_att_key": False, "pos_att_type": "c2p"},
    "deberta-v2, a convolution": {**DEBERTA, "conv_kernel_size": 3},
    "deberta-v2, as a bert": {**BERT, "model_type": "deberta-v2"},
    "deberta-v2, other vocabulary": with_vocabularies(DEBERTA, {"encoder": 44, "decoder": 44}),
    "modernbert": MODERNBERT,
    "modernbert, untied": MODERNBERT | UNTIED,
    "modernbert, biases": {**MODERNBERT, "norm_bias": True, "attention_bias": True, "classifier_bias": True},
    "xlnet": XLNET,
    "xlnet, untied": XLNET | UNTIED,
    "xlnet, other vocabulary": with_vocabularies(XLNET, {"encoder": 44, "decoder": 44}),
    "pegasus": PEGASUS,
    "pegasus, other vocabulary": with_vocabularies(PEGASUS, {"encoder": 44, "decoder": 44}),
    "mistral": MISTRAL,
    "phi3": PHI3,
    "gemma": GEMMA,
    "gemma2": GEMMA2,
    "gemma3_text": GEMMA3,
    "gemma3_text, other vocabulary": with_vocabularies(GEMMA3, {"decoder": 44}),
    "opt": OPT,
    "opt, norms after": {**OPT, "do_layer_norm_before": False},
    "opt, narrow embeddings": {**OPT, "word_embed_proj_dim": 16, "do_layer_norm_before": False},
    "opt, other vocabulary": with_vocabularies(OPT, {"decoder": 44}),
    "gpt_neox": GPT_NEOX,
    "gpt_neox, no biases in attention": {**GPT_NEOX, "attention_bias": False},
    "bloom": BLOOM,
    "bloom, other vocabulary": with_vocabularies(BLOOM, {"decoder": 44}),
    "gpt2": GPT2_MODEL,
    "gpt2, untied": GPT2_MODEL | UNTIED,
    "gpt2, inner width of its own": {**GPT2_MODEL, "n_inner": None},
    "gpt2, other vocabulary": with_vocabularies(GPT2_MODEL, {"decoder": 44}),
    "llama": LLAMA,
    "llama, tied": config_dict(LlamaSettings(**ONE, tied=True), 65, 65),
    "llama, grouped": config_dict(LlamaSettings(**ONE, key_value_heads=1), 65, 65),
    "llama, biases and wide heads": {**LLAMA, "attention_bias": True, "mlp_bias": True, "head_dim": 32},
    "llama, other vocabulary": with_vocabularies(LLAMA, {"decoder": 44}),
    "m2m_100": M2M100,
    "m2m_100, sides of other shape": {**M2M100, "encoder_ffn_dim": 16, "decoder_layers": 4},
    "m2m_100, other vocabulary": with_vocabularies(M2M100, {"encoder": 44, "decoder": 44}),
    "t5": T5_MODEL,
    "t5 1.1": config_dict(T5Settings(**TWO, tied=False, gated=True), 55, 55),
    "t5, narrow heads and few buckets": {**T5_MODEL, "d_kv": 3, "relative_attention_num_buckets": 8},
    "t5, a decoder as deep": {**T5_MODEL, "num_decoder_layers": None},
    "t5, other vocabulary": with_vocabularies(T5_MODEL, {"encoder": 44, "decoder": 44}),
}


def without_memory(config: dict[str, Any]) -> PreTrainedModel:
    family = family_of(config)
    kind: Any = family.model_class()
    with torch.device("meta"):
        model: PreTrainedModel = kind(kind.config_class.from_dict(dict(config)))
    family.post_init(model)
    return model


def counted(model: PreTrainedModel, frozen: Iterable[SideName] = ()) -> Parameters:
    for table in tables_of(model, frozen).values():
        table.requires_grad_(False)
    sizes = [(parameter.numel(), parameter.requires_grad) for parameter in model.parameters()]
    return Parameters(sum(size for size, _ in sizes), sum(size for size, trained in sizes if trained))


@pytest.mark.parametrize("name", CONFIGS)
def test_formulas_count_what_is_constructed(name: str) -> None:
    config = CONFIGS[name]
    sides = family_of(config).sides
    for frozen in ((), *((side,) for side in sides), sides):
        assert count_parameters(config, frozen) == counted(without_memory(config), frozen)
    model = without_memory(config)
    rows = {side: len(family_of(config).input_table(model, side).weight) for side in sides}
    assert vocabulary_sizes(config) == rows


@pytest.mark.parametrize("build", [marian, mbart, bert2bert, gpt2, llama])
def test_transferred_models(build: Any) -> None:
    """By the configuration of the model itself, as it is written to disk."""
    old = {marian: german_tokenizer, gpt2: german_tokenizer, llama: german_tokenizer, bert2bert: cased_tokenizer}
    upstream = old.get(build, multilingual_tokenizer)()
    new = german_tokenizer(120, "wordpiece") if build is bert2bert else fitted_tokenizer()
    model: PreTrainedModel = build()
    expected = count_parameters(with_vocabularies(model.config.to_dict(), {"decoder": len(new)}))
    made = transplant(model, {"decoder": upstream}, {"decoder": new}, Method("mean")).model
    assert expected == counted(made) == count_parameters(made.config.to_dict())


def test_published_sizes() -> None:
    """mBART has its 610 million, GPT-2 124 million, Llama 2 6.74 billion, TinyLlama 1.1 billion."""
    config = MBartConfig(vocab_size=250_027).to_dict()
    assert 610_000_000 < count_parameters(config).total < 611_500_000
    # With a decoder's vocabulary of its own, encoder and decoder have a table each.
    split = count_parameters(with_vocabularies(config, {"decoder": 32_000})).total
    assert split == count_parameters(config).total + 32_000 * 1024
    assert count_parameters(GPT2Config().to_dict()).total == 124_439_808
    assert count_parameters(LlamaConfig().to_dict()).total == 6_738_415_616
    tiny = LlamaConfig(hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_key_value_heads=4)
    assert count_parameters(tiny.to_dict()).total == 1_100_048_384


def test_frozen_tables_are_held_and_not_trained() -> None:
    """A table that is input and output, or both sides', counts once."""
    for model, size in ((marian(), len(german_tokenizer())), (mbart(), len(multilingual_tokenizer()))):
        whole = counted(model)
        frozen = count_parameters(model.config.to_dict(), ["decoder"])
        assert frozen == Parameters(whole.total, whole.trained - size * SHAPE["d_model"])
