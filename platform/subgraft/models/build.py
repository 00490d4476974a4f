"""New models of the known families, with random weights, for the vocabularies they are to speak."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    MBartConfig,
    MBartForConditionalGeneration,
    PreTrainedModel,
)

from subgraft.models.sides import set_padding
from subgraft.vocabulary.tokenizer import Tokenizer


class Shape(TypedDict):
    """The size of a Transformer; encoder and decoder have the same width, heads and dropout."""

    d_model: int
    encoder_layers: int
    decoder_layers: int
    attention_heads: int
    ffn_dim: int
    dropout: float
    attention_dropout: float
    activation_dropout: float
    max_positions: int


def build_marian(encoder: Tokenizer, decoder: Tokenizer, *, seed: int, **shape: Unpack[Shape]) -> PreTrainedModel:
    """A translation Transformer (Vaswani et al., 2017) with a vocabulary per side, in Marian's form.

    The output projection is the decoder's input table. Weights are drawn from N(0, 1/d_model), as the embeddings of a
    Transformer usually are, so that scaled embeddings have unit variance.
    """
    config = MarianConfig(  # type: ignore[call-arg]
        vocab_size=len(encoder),
        decoder_vocab_size=len(decoder),
        share_encoder_decoder_embeddings=False,
        activation_function="relu",
        init_std=shape["d_model"] ** -0.5,
        encoder_pad_token_id=encoder.special["pad"],
        decoder_start_token_id=decoder.special["pad"],
        **_common(decoder, shape),
    )
    return _initialised(MarianMTModel, config, seed)


def build_mbart(tokenizer: Tokenizer, *, seed: int, **shape: Unpack[Shape]) -> PreTrainedModel:
    """An mBART (Liu et al., 2020): one vocabulary and one table for encoder, decoder and output projection.

    Every text starts with its language code, so `decoder_start_token_id` is left to whoever generates.
    """
    config = MBartConfig(vocab_size=len(tokenizer), **_common(tokenizer, shape))
    return _initialised(MBartForConditionalGeneration, config, seed)


def build_bert(tokenizer: Tokenizer, *, seed: int, **shape: Unpack[Shape]) -> PreTrainedModel:
    """A BERT (Devlin et al., 2019) with its masked language modelling head, whose projection is its input table.

    Of `shape` the encoder's layers count. BERT has no dropout behind its activations, and no segments are told apart
    here, though the table of both is there as in published ones.
    """
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape["d_model"],
        num_hidden_layers=shape["encoder_layers"],
        num_attention_heads=shape["attention_heads"],
        intermediate_size=shape["ffn_dim"],
        hidden_dropout_prob=shape["dropout"],
        attention_probs_dropout_prob=shape["attention_dropout"],
        max_position_embeddings=shape["max_positions"],
        pad_token_id=tokenizer.special["pad"],
    )
    return _initialised(BertForMaskedLM, config, seed)


def build_gpt2(
    tokenizer: Tokenizer,
    *,
    d_model: int,
    layers: int,
    attention_heads: int,
    dropout: float,
    max_positions: int,
    seed: int,
) -> PreTrainedModel:
    """A GPT-2 (Radford et al., 2019): a decoder alone, its output projection tied to its input table."""
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_embd=d_model,
        n_layer=layers,
        n_head=attention_heads,
        n_positions=max_positions,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        bos_token_id=tokenizer.special["bos"],
        eos_token_id=tokenizer.special["eos"],
        pad_token_id=tokenizer.special.get("pad"),
    )
    return _initialised(GPT2LMHeadModel, config, seed)


def _common(decoder: Tokenizer, shape: Shape) -> dict[str, Any]:
    """What Marian and mBART are told alike. Token ids are the decoder's, because generation reads them.

    No end is forced: a translation that ran into its length limit should not look as if it had ended.
    """
    return {
        "d_model": shape["d_model"],
        "encoder_layers": shape["encoder_layers"],
        "decoder_layers": shape["decoder_layers"],
        "encoder_attention_heads": shape["attention_heads"],
        "decoder_attention_heads": shape["attention_heads"],
        "encoder_ffn_dim": shape["ffn_dim"],
        "decoder_ffn_dim": shape["ffn_dim"],
        "dropout": shape["dropout"],
        "attention_dropout": shape["attention_dropout"],
        "activation_dropout": shape["activation_dropout"],
        "max_position_embeddings": shape["max_positions"],
        "scale_embedding": True,
        "pad_token_id": decoder.special["pad"],
        "bos_token_id": decoder.special.get("bos"),
        "eos_token_id": decoder.special["eos"],
        "forced_eos_token_id": None,
    }


def _initialised(family: type[PreTrainedModel], config: Any, seed: int) -> PreTrainedModel:
    """A model whose weights are a function of the seed alone; the caller's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = family(config)
    set_padding(model)
    if config.is_encoder_decoder:
        # Without a limit of its own, generate stops after 20 tokens.
        model.generation_config.max_length = config.max_position_embeddings
    return model
