"""T5, tied and untied: what transformers computes is what is read from it here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, T5Config, T5ForConditionalGeneration

from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.loading import load
from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.embeddings.transplanting.transplant import Method, weight_scale
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import count_parameters, family_named
from subgraft.modeling.inference.translate import Translator
from subgraft.modeling.sides import (
    decoder_states_from_memory,
    encoder_states,
    replace_tables,
    shares_table,
    side,
    without_dropout,
)
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.alignment import align
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqData, Seq2SeqView, token_loss
from subgraft.training.objectives.compute.translation import Translation
from toys import SHAPE, english, fitted_tokenizer, german, joint_tokenizer, t5

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
def test_the_loss_is_what_transformers_makes_of_labels(tied: bool) -> None:
    model, batch = t5(tied=tied), _batch()
    assert model.config.scale_decoder_outputs is tied
    theirs = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    assert (token_loss(model, batch) / batch.counts["loss"]).item() == pytest.approx(theirs.item(), rel=1e-6)


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


@TIED
def test_a_saved_one_is_what_transformers_alone_reads(tied: bool, tmp_path: Path) -> None:
    model, batch = t5(tied=tied), _batch()
    Bundle(model, joint_tokenizer(), joint_tokenizer()).save(tmp_path)
    again = Bundle.load(tmp_path).model
    standard = AutoModelForSeq2SeqLM.from_pretrained(tmp_path).eval()
    inputs = (batch.input_ids, batch.attention_mask, batch.decoder_input_ids)
    assert torch.equal(again(*inputs).logits, model(*inputs).logits)
    assert torch.equal(standard(*inputs).logits, model(*inputs).logits)
    assert side(again, "decoder").tied == tied and shares_table(again)
    assert count_parameters(again.config.to_dict()).total == sum(p.numel() for p in again.parameters())


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


def test_new_ones_follow_the_seed_and_start_as_the_same_function() -> None:
    first, again, other = t5(1), t5(1), t5(2)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    table = side(first, "decoder").input.weight
    assert not torch.equal(table, side(other, "decoder").input.weight)
    assert table.std().item() == pytest.approx(weight_scale(first, side(first, "decoder")), rel=0.05)
    assert first.generation_config.max_length == SHAPE["max_positions"]


@pytest.mark.parametrize("method", ["mean", "random-matched"])
@TIED
def test_seen_tokens_have_the_logits_they_had(tied: bool, method: str, tmp_path: Path) -> None:
    old, new, model = joint_tokenizer(), fitted_tokenizer(), t5(tied=tied)
    Bundle(model, old, old).save(tmp_path / "old")
    transfer(tmp_path / "old", dict.fromkeys(SIDES, new), Method(method), tmp_path / "new")
    fitted = Bundle.load(tmp_path / "new")
    assert shares_table(fitted.model) and side(fitted.model, "decoder").tied == tied
    assert fitted.model.config.decoder_start_token_id == new.special["pad"]
    origins = torch.from_numpy(align(old, new).origins)
    seen = (origins >= 0).nonzero().flatten()
    assert len(seen) > 40
    chosen = seen[torch.randperm(len(seen), generator=torch.Generator().manual_seed(1))[:12]][None]
    before = model(origins[chosen], decoder_input_ids=origins[chosen]).logits
    after = fitted.model(chosen, decoder_input_ids=chosen).logits
    torch.testing.assert_close(after[..., seen], before[..., origins[seen]], rtol=0, atol=1e-6)


def test_sides_cannot_have_vocabularies_of_their_own(tmp_path: Path) -> None:
    old, new = joint_tokenizer(), fitted_tokenizer()
    Bundle(t5(), old, old).save(tmp_path / "old")
    with pytest.raises(UserError, match=r"downstream\.shared: true"):
        transfer(tmp_path / "old", {"decoder": new}, Method("mean"), tmp_path / "new")
    config = t5().config.to_dict()
    for sizes in ({"decoder": 44}, {"encoder": 44, "decoder": 45}):
        with pytest.raises(UserError, match=r"downstream\.shared: true"):
            family_named("t5").with_vocabularies(config, sizes)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="one embedding matrix"):
        replace_tables(t5(), {})


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


@pytest.mark.parametrize("name", SIDES)
@TIED
def test_a_generator_can_be_trained_on_it(tied: bool, name: SideName) -> None:
    tokenizer = joint_tokenizer()
    padding = (tokenizer.special["pad"], tokenizer.special["pad"])
    model, generator = without_dropout(t5(tied=tied)), Generator("patt", SHAPE["d_model"])
    view = Seq2SeqView(_examples(), name, padding)
    loss = GeneratorLoss(model, generator, view, 0.5, 0.0, "input").eval()
    settings = ResegmentationSettings(merge_rate=0.4, split_rate=0.3)
    sums = loss(Simulator(view, tokenizer, settings, 10, 1).batch(np.arange(6), 0))
    (sums["prediction"] + sums["distillation"]).backward()
    assert generator.weight.grad is not None and generator.weight.grad.abs().sum() > 0
    still = Simulator(view, tokenizer, ResegmentationSettings(merge_rate=0, split_rate=0), 10, 1)
    assert loss(still.batch(np.arange(4), 0))["distillation"].item() == pytest.approx(0.0, abs=1e-3)


@pytest.mark.slow
def test_a_whole_experiment(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        tiny(
            model="{family: t5, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16}",
            pretrain="{epochs: 2, batch_size: 500, precision: fp32, dev_sentences: 2}",
            sides="[encoder, decoder]",
            downstream="{corpus: downstream, shared: true, vocabulary: {size: 75, byte_fallback: false}}",
        ),
    )
    pipeline, store = finish(config)
    assert store.path(pipeline.report).is_dir()


def test_separate_vocabularies_are_refused_before_anything_runs(tmp_path: Path) -> None:
    sizes = "d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16"
    with pytest.raises(UserError, match="has one table for both sides"):
        load(written(tmp_path, tiny(model=f"{{family: t5, {sizes}}}")), Experiment, ())


def test_one_rate_of_dropout(tmp_path: Path) -> None:
    config = written(tmp_path, tiny(model="{family: t5, d_model: 16, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 16, attention_dropout: 0.1}"))  # noqa: E501  # fmt: skip
    with pytest.raises(UserError, match="one dropout for the complete model"):
        load(config, Experiment, ())
