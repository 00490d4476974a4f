from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from subgraft.models.beam_cache import BeamCache
from toys import english, english_tokenizer, marian, mbart, multilingual_tokenizer


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
    expected = model.generate(**inputs, **settings)
    assert len({tuple(output.tolist()) for output in expected}) > 1, "the outputs differ from sentence to sentence"
    assert torch.equal(model.generate(**inputs, **settings, past_key_values=BeamCache()), expected)
