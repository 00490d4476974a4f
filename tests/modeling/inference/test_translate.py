from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from subgraft.config.corpora import Languages
from subgraft.modeling.inference.translate import BeamCache, Translator
from subgraft.subwords.vocabulary.learn import learn
from toys import (
    SHAPE,
    build_marian,
    english,
    english_tokenizer,
    generated,
    german,
    marian,
    mbart,
    multilingual_tokenizer,
    output_bias,
    sequence_format,
)


@pytest.mark.parametrize("build", [marian, mbart])
@pytest.mark.parametrize("beam", [1, 4])
def test_sharing_the_source_changes_no_output(build: Callable[[], PreTrainedModel], beam: int) -> None:
    model = build()
    with torch.no_grad():  # an untrained model hardly looks at its source
        for name, parameter in model.named_parameters():
            if "encoder_attn." in name or "encoder.layers" in name:
                parameter.mul_(12)
    tokenizer = english_tokenizer() if model.config.model_type == "marian" else multilingual_tokenizer()
    encoded = [[*tokenizer.encode(text)[:30], tokenizer.special["eos"]] for text in english(8)]
    longest = max(map(len, encoded))
    padding = tokenizer.special["pad"]
    sources = torch.tensor([ids + [padding] * (longest - len(ids)) for ids in encoded])
    settings = {"num_beams": beam, "max_length": 24, "decoder_start_token_id": padding, "do_sample": False}
    inputs = {"input_ids": sources, "attention_mask": (sources != padding).long()}
    expected = generated(model, **inputs, **settings)
    assert len({tuple(output.tolist()) for output in expected}) > 1, "the outputs differ from sentence to sentence"
    assert torch.equal(generated(model, **inputs, **settings, past_key_values=BeamCache()), expected)


def test_a_translation_is_one_line_whatever_it_spells() -> None:
    source, target = english_tokenizer(), learn(german(), kind="unigram", size=350, byte_fallback=True)
    model = build_marian(source, target, seed=1, **SHAPE)
    output_bias(model)[0, target.byte_ids[ord("\n")]] = 1e3
    form = sequence_format({"model_type": "marian"}, source, target, Languages(source="en", target="de"))
    translate = Translator(model, source, target, form, beam=1, max_length_ratio=1.0, max_positions=20)
    assert all("\n" not in text for text in translate(english(2)))
    assert all("\n" not in output.text for output in translate.with_probabilities(english(2)))
