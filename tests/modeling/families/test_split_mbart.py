from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import pytest
import torch

from subgraft.modeling.families.split_mbart import SplitMBartConfig, SplitMBartForConditionalGeneration
from toys import generated
from transformers_outputs import SOURCE_MASK, SOURCES, TARGETS, check_remote_code, logits_of_targets

# Of any type, for a constructor that takes many.
Settings: TypeAlias = dict[str, Any]


def split_model(**settings: Any) -> SplitMBartForConditionalGeneration:
    sizes: Settings = {"vocab_size": 50, "decoder_vocab_size": 30, "encoder_pad_token_id": 7, "pad_token_id": 1}
    layers: Settings = {
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    }
    widths: Settings = {
        "d_model": 16,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "max_position_embeddings": 40,
    }
    torch.manual_seed(1)
    config = SplitMBartConfig(**sizes, **layers, **widths, init_std=0.2, scale_embedding=True, **settings)
    model = SplitMBartForConditionalGeneration(config)
    model.eval()
    model.final_logits_bias.copy_(torch.linspace(-1, 1, 30))
    return model


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_directory_gives_the_same_logits_and_ties(tied: bool, tmp_path: Path) -> None:
    model = split_model(tie_word_embeddings=tied)
    assert logits_of_targets(model).shape == (2, 3, 30)
    model.save_pretrained(tmp_path)
    loaded: Any = SplitMBartForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    again, information = loaded
    assert not information["missing_keys"]
    assert not information["unexpected_keys"]
    assert torch.equal(logits_of_targets(again), logits_of_targets(model))
    assert (again.lm_head.weight is again.model.decoder.embed_tokens.weight) == tied
    assert again.model.encoder.embed_tokens.padding_idx == 7


def test_the_directory_loads_without_this_package_where_remote_code_is_allowed(tmp_path: Path) -> None:
    check_remote_code(split_model(), tmp_path)


def test_the_loss_is_over_the_decoders_vocabulary_and_comes_first() -> None:
    model = split_model()
    labels = torch.tensor([[29, 28, 2, 8], [3, 2, 8, -100]])
    outputs = model(SOURCES, attention_mask=SOURCE_MASK, labels=labels)
    shifted = torch.tensor([[8, 29, 28, 2], [8, 3, 2, 8]])
    expected = model(SOURCES, attention_mask=SOURCE_MASK, decoder_input_ids=shifted).logits
    counted = labels != -100
    reference = torch.nn.functional.cross_entropy(expected[counted], labels[counted])
    assert torch.allclose(outputs.loss, reference)
    assert outputs[0] is outputs.loss
    plain = model(SOURCES, attention_mask=SOURCE_MASK, labels=labels, return_dict=False)
    assert torch.equal(plain[0], outputs.loss)


def test_beams_start_from_the_decoders_own_ids_and_equal_a_search_without_cache() -> None:
    model = split_model()
    settings = {"num_beams": 3, "max_length": 12, "decoder_start_token_id": 29, "forced_bos_token_id": 28}
    cached = generated(model, SOURCES, attention_mask=SOURCE_MASK, **settings)
    plain = generated(model, SOURCES, attention_mask=SOURCE_MASK, use_cache=False, **settings)
    assert torch.equal(cached, plain)
    assert cached[:, :2].tolist() == [[29, 28], [29, 28]]


def test_padding_of_the_encoder_has_no_influence_and_gets_no_gradient() -> None:
    model = split_model()
    alone = model(SOURCES[1:, :2], decoder_input_ids=TARGETS[1:]).logits
    assert torch.allclose(logits_of_targets(model)[1], alone[0], atol=1e-5)
    logits_of_targets(model).square().sum().backward()
    gradient = model.model.encoder.embed_tokens.weight.grad
    assert not gradient[7].any()
    assert gradient[5].any()


def test_what_has_no_meaning_with_two_vocabularies_is_refused() -> None:
    model = split_model()
    with pytest.raises(ValueError, match="decoder_input_ids or labels"):
        model(SOURCES)
    with pytest.raises(NotImplementedError, match="two vocabularies"):
        model.resize_token_embeddings(60)
