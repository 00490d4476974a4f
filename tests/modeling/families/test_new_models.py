from __future__ import annotations

import math

import torch

from toys import (
    SHAPE,
    build_marian,
    english_tokenizer,
    generated,
    german_tokenizer,
    gpt2,
    marian,
    mbart,
    multilingual_tokenizer,
    output_bias,
)


def test_marian_has_a_vocabulary_per_side_and_ties_only_the_decoders() -> None:
    model = marian()
    encoder, decoder = model.model.encoder.embed_tokens, model.model.decoder.embed_tokens
    assert len(encoder.weight) == len(english_tokenizer())
    assert len(decoder.weight) == len(german_tokenizer())
    assert model.lm_head.weight is decoder.weight
    assert model.config.decoder_start_token_id == german_tokenizer().special["pad"]


def test_marian_embeddings_have_the_scale_of_a_transformer() -> None:
    tokenizer = german_tokenizer()
    shape = {**SHAPE, "d_model": 256}
    table = build_marian(tokenizer, tokenizer, seed=3, **shape).model.decoder.embed_tokens.weight
    ordinary = torch.cat([table[:1], table[2:]])
    assert math.isclose(ordinary.std().item(), 256**-0.5, rel_tol=0.02)
    assert not table[tokenizer.special["pad"]].any()


def test_generation_ends_where_the_model_ends_it_or_at_the_last_position() -> None:
    model, tokenizer = marian(), german_tokenizer()
    sources = torch.tensor([[*english_tokenizer().encode("thankful garden"), 2]])
    eos = tokenizer.special["eos"]
    output_bias(model)[0, eos] = -1e4
    endless = generated(model, sources, attention_mask=torch.ones_like(sources), num_beams=2)[0].tolist()
    assert len(endless) == SHAPE["max_positions"]
    assert eos not in endless, "no end may be forced onto a text that ran into its limit"
    output_bias(model)[0, eos] = 1e4
    ended = generated(model, sources, attention_mask=torch.ones_like(sources), num_beams=2)[0].tolist()
    assert ended == [tokenizer.special["pad"], eos]


def test_mbart_shares_one_table_and_starts_from_a_language_code() -> None:
    model, tokenizer = mbart(), multilingual_tokenizer()
    assert model.lm_head.weight is model.model.encoder.embed_tokens.weight
    assert model.lm_head.weight is model.model.decoder.embed_tokens.weight
    sources = torch.tensor([[*tokenizer.encode("thankful garden"), 2, tokenizer.languages["en_XX"]]])
    code = tokenizer.languages["de_DE"]
    out = generated(model, sources, attention_mask=torch.ones_like(sources), decoder_start_token_id=code, max_length=6)
    assert out[0, 0] == code


def test_gpt2_is_tied_and_generates() -> None:
    model, tokenizer = gpt2(), german_tokenizer()
    assert model.get_parameter("lm_head.weight") is model.get_parameter("transformer.wte.weight")
    prompt = torch.tensor([[tokenizer.special["bos"], *tokenizer.encode("dankbar")]])
    out = generated(model, prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=4, do_sample=False)
    assert out.shape[1] <= prompt.shape[1] + 4
