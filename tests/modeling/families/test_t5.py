"""T5, tied and untied: what transformers computes is what is read from it here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from small_experiments import tiny, written
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.config.settings_base import SideName
from subgraft.embeddings.transplanting.transplant import weight_scale
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import count_parameters, family_named
from subgraft.modeling.inference.translate import Translator
from subgraft.modeling.sides import (
    decoder_states_from_memory,
    encoder_states,
    replace_tables,
    side,
)
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqData
from subgraft.training.objectives.compute.translation import Translation
from toys import SHAPE, english, german, joint_tokenizer, t5

LANGUAGES = Languages(source="en", target="de")
SIDES: tuple[SideName, SideName] = ("encoder", "decoder")
TIED = pytest.mark.parametrize("tied", [True, False])


def _examples(max_length: int = 40) -> Translation:
    tokenizer = joint_tokenizer()
    form = family_named("t5").sequence_format({}, tokenizer, tokenizer, LANGUAGES)
    return Translation(list(zip(english(30), german(30), strict=True)), tokenizer, tokenizer, form, max_length)


def _batch(max_length: int = 40) -> Seq2SeqBatch:
    padding = joint_tokenizer().special["pad"]
    return Seq2SeqData(_examples(max_length), padding, padding).batch(np.arange(6), 0)


@TIED
def test_states_behind_a_layer_and_embeddings_are_the_models_own(tied: bool) -> None:
    model, batch = t5(tied=tied), _batch()
    mask = batch.attention_mask
    whole = model(batch.input_ids, mask, batch.decoder_input_ids, output_hidden_states=True)
    memory = encoder_states(model, input_ids=batch.input_ids, attention_mask=mask)
    states = decoder_states_from_memory(model, memory, mask, input_ids=batch.decoder_input_ids)
    decoder = side(model, "decoder")
    assert decoder.output is not None and (decoder.transform is not None) == decoder.tied == tied
    scaled = states if decoder.transform is None else decoder.transform(states)
    torch.testing.assert_close(decoder.output(scaled), whole.logits, rtol=0, atol=1e-6)
    embedded = decoder.input(batch.decoder_input_ids)
    assert torch.equal(decoder_states_from_memory(model, memory, mask, inputs_embeds=embedded), states)
    first = decoder_states_from_memory(model, memory, mask, layer=1, input_ids=batch.decoder_input_ids)
    torch.testing.assert_close(first, whole.decoder_hidden_states[1])
    assert not torch.equal(first, states)


def test_a_published_1_1_has_a_projection_of_its_own_even_where_it_equals_the_table(tmp_path: Path) -> None:
    config = T5Config(  # type: ignore[call-arg]
                      vocab_size=len(joint_tokenizer()), d_model=16, d_kv=8, d_ff=24, num_layers=1, num_heads=2,
                      feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0)  # fmt: skip
    Bundle(T5ForConditionalGeneration(config).eval(), joint_tokenizer(), joint_tokenizer()).save(tmp_path)
    loaded = Bundle.load(tmp_path).model
    decoder = side(loaded, "decoder")
    assert decoder.output is not None and not decoder.tied and decoder.transform is None
    assert torch.equal(decoder.output.weight, decoder.input.weight)
    assert count_parameters(loaded.config.to_dict()).total == sum(p.numel() for p in loaded.parameters())


def test_new_ones_start_as_the_same_function() -> None:
    model = t5()
    decoder = side(model, "decoder")
    assert decoder.input.weight.std().item() == pytest.approx(weight_scale(model, decoder), rel=0.05)
    assert model.generation_config.max_length == SHAPE["max_positions"]


@pytest.mark.slow
def test_texts_of_any_length_are_translated() -> None:
    tokenizer, model = joint_tokenizer(), t5()
    bundle = Bundle(model, tokenizer, tokenizer)
    texts = [*english(3), " ".join(english(40))]
    for beam in (2, 1):
        translate = Translator(
            model,
            tokenizer,
            tokenizer,
            bundle.sequence_format(LANGUAGES),
            beam=beam,
            max_length_ratio=1.0,
            max_positions=bundle.max_positions,
        )
        outputs = translate.with_probabilities(texts)
        assert len(outputs[3].tokens) <= len(texts[3].encode()) + 30
        assert len(tokenizer.encode(texts[3])) > 4 * SHAPE["max_positions"]
    source = torch.tensor([[*tokenizer.encode(texts[0]), tokenizer.special["eos"]]])
    # (Without a cache: transformers makes one of as many layers as the encoder has.)
    theirs = model.generate(source, max_length=8, do_sample=False, use_cache=False)[0].tolist()  # type: ignore[operator]
    assert theirs[0] == tokenizer.special["pad"]
    body = [token for token in theirs[1:] if token != tokenizer.special["eos"]]
    assert body == list(outputs[0].tokens[: len(body)]) and body


def test_its_tables_are_not_replaced_side_by_side() -> None:
    with pytest.raises(UserError, match="one embedding matrix"):
        replace_tables(t5(), {})


def test_one_rate_of_dropout(tmp_path: Path) -> None:
    config = written(tmp_path, tiny(model="{family: t5, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16, attention_dropout: 0.1}"))  # noqa: E501  # fmt: skip
    with pytest.raises(UserError, match="one dropout for the complete model"):
        load(config, Experiment, ())
