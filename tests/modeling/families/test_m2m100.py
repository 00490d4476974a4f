"""M2M-100 and NLLB: what transformers computes is what is read from them here."""

from __future__ import annotations

from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM

from small_experiments import finish, tiny, written
from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.initialisers import ResegmentationSettings
from subgraft.config.settings_base import SideName
from subgraft.embeddings.generators.generator import Generator
from subgraft.embeddings.generators.generator_loss import GeneratorLoss
from subgraft.embeddings.generators.simulation import Simulator
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import SequenceFormat, family_named, language_code
from subgraft.modeling.inference.translate import Translator
from subgraft.modeling.sides import (
    decoder_states_from_memory,
    encoder_states,
    input_scale,
    shares_table,
    side,
    without_dropout,
)
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqView, token_loss
from subgraft.training.objectives.compute.translation import Translation
from toys import SHAPE, english, fitted_tokenizer, german, m2m100, multilingual_tokenizer

LANGUAGES = Languages(source="en", target="de")
SIDES: tuple[SideName, SideName] = ("encoder", "decoder")
TOKENIZER = multilingual_tokenizer()
END, ENGLISH, GERMAN = TOKENIZER.special["eos"], TOKENIZER.languages["en_XX"], TOKENIZER.languages["de_DE"]
PADDING = TOKENIZER.special["pad"]
FORM = family_named("m2m_100").sequence_format({"eos_token_id": END}, TOKENIZER, TOKENIZER, LANGUAGES)


def _examples() -> Translation:
    return Translation(list(zip(english(30), german(30), strict=True)), TOKENIZER, TOKENIZER, FORM, max_length=40)


def test_sequences_begin_with_the_code_of_their_language() -> None:
    assert SequenceFormat((END,), (END,), END, (ENGLISH,), GERMAN) == FORM
    first = copy(TOKENIZER)
    first.config = {**TOKENIZER.config, "legacy_behaviour": True}
    form = family_named("m2m_100").sequence_format({}, first, first, LANGUAGES)
    assert form == SequenceFormat((END, ENGLISH), (END,), END, (), GERMAN)


def test_codes_are_found_however_they_are_spelled() -> None:
    m2m = learn(english(), kind="unigram", size=80, languages=("__de__", "__en__"))
    nllb = learn(english(), kind="unigram", size=80, languages=("deu_Latn", "eng_Latn"))
    assert m2m.pieces[language_code(m2m, "en")] == m2m.pieces[language_code(m2m, "__en__")] == "__en__"
    assert nllb.pieces[language_code(nllb, "eng")] == nllb.pieces[language_code(nllb, "eng_Latn")] == "eng_Latn"
    with pytest.raises(UserError, match="no language code for 'fr'"):
        language_code(m2m, "fr")


def test_the_loss_is_what_transformers_makes_of_labels() -> None:
    model, batch = m2m100(), Seq2SeqData(_examples(), PADDING, PADDING).batch(np.arange(6), 0)
    assert (batch.labels[:, 0] == GERMAN).all()
    theirs = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, labels=batch.labels).loss
    assert (token_loss(model, batch) / batch.counts["loss"]).item() == pytest.approx(theirs.item(), rel=1e-6)


def test_embeddings_given_in_place_of_ids_are_scaled() -> None:
    model, batch = m2m100(), Seq2SeqData(_examples(), PADDING, PADDING).batch(np.arange(6), 0)
    mask, scales = batch.attention_mask, [input_scale(model, side(model, name)) for name in SIDES]
    assert scales == [SHAPE["d_model"] ** 0.5] * 2
    memory = encoder_states(model, input_ids=batch.input_ids, attention_mask=mask)
    table = side(model, "encoder").input.weight
    embedded = encoder_states(model, inputs_embeds=table[batch.input_ids] * scales[0], attention_mask=mask)
    torch.testing.assert_close(embedded[mask.bool()], memory[mask.bool()])
    states = decoder_states_from_memory(model, memory, mask, input_ids=batch.decoder_input_ids)
    decoder = side(model, "decoder")
    assert decoder.output is not None and decoder.tied and decoder.bias is None
    logits = model(batch.input_ids, mask, batch.decoder_input_ids).logits
    torch.testing.assert_close(decoder.output(states), logits)


@pytest.mark.parametrize("method", ["mean", "random-matched"])
def test_seen_tokens_have_the_logits_they_had(method: str, tmp_path: Path) -> None:
    new, model = fitted_tokenizer(), m2m100()
    Bundle(model, TOKENIZER, TOKENIZER).save(tmp_path / "old")
    transfer(tmp_path / "old", dict.fromkeys(SIDES, new), Method(method), tmp_path / "new")
    fitted = Bundle.load(tmp_path / "new")
    assert shares_table(fitted.model) and fitted.sequence_format(LANGUAGES).target_beginning == new.languages["de_DE"]
    origins = torch.from_numpy(align(TOKENIZER, new).origins)
    seen = (origins >= 0).nonzero().flatten()
    assert len(seen) > 40
    chosen = seen[torch.randperm(len(seen), generator=torch.Generator().manual_seed(1))[:12]][None]
    before = model(origins[chosen], decoder_input_ids=origins[chosen]).logits
    after = fitted.model(chosen, decoder_input_ids=chosen).logits
    torch.testing.assert_close(after[..., seen], before[..., origins[seen]], rtol=0, atol=1e-6)
    standard = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "new").eval()
    assert torch.equal(standard(chosen, decoder_input_ids=chosen).logits, after)


def test_what_would_change_the_model_is_refused(tmp_path: Path) -> None:
    model, new = m2m100(), fitted_tokenizer()
    Bundle(model, TOKENIZER, TOKENIZER).save(tmp_path / "old")
    with pytest.raises(UserError, match=r"downstream\.shared: true"):
        transfer(tmp_path / "old", {"decoder": new}, Method("mean"), tmp_path / "new")
    wordpiece = learn(english() + german(), kind="wordpiece", size=150, languages=("de_DE", "en_XX"))
    assert wordpiece.special["pad"] != PADDING
    with pytest.raises(UserError, match="counts positions from its padding id"):
        transfer(tmp_path / "old", dict.fromkeys(SIDES, wordpiece), Method("mean"), tmp_path / "new")
    for sizes in ({"decoder": 44}, {"encoder": 44, "decoder": 45}):
        with pytest.raises(UserError, match="one embedding matrix"):
            family_named("m2m_100").with_vocabularies(model.config.to_dict(), sizes)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="untied embeddings"):
        family_named("m2m_100").check({"tie_word_embeddings": False})


def test_outputs_are_those_of_a_forced_beginning() -> None:
    model, bundle = m2m100(), Bundle(m2m100(), TOKENIZER, TOKENIZER)
    translate = Translator(
        model, TOKENIZER, TOKENIZER, FORM, beam=2, max_length_ratio=3.0, max_positions=bundle.max_positions
    )
    for text in english(3):
        source = torch.tensor([[ENGLISH, *TOKENIZER.encode(text), END]])
        theirs = model.generate(source, num_beams=2, early_stopping=True, forced_bos_token_id=GERMAN, max_length=40)  # type: ignore[operator]
        assert theirs[0, :2].tolist() == [END, GERMAN]
        output = translate.with_probabilities([text])[0]
        assert list(output.tokens) == theirs[0, 2 : 2 + len(output.tokens)].tolist()


@pytest.mark.parametrize("name", SIDES)
def test_a_generator_can_be_trained_on_it(name: SideName) -> None:
    model, generator = without_dropout(m2m100()), Generator("patt", SHAPE["d_model"])
    view = Seq2SeqView(_examples(), name, (PADDING, PADDING))
    loss = GeneratorLoss(model, generator, view, 0.5, 0.0, "input").eval()
    settings = ResegmentationSettings(merge_rate=0.4, split_rate=0.3)
    sums = loss(Simulator(view, TOKENIZER, settings, 10, 1).batch(np.arange(6), 0))
    (sums["prediction"] + sums["distillation"]).backward()
    assert generator.weight.grad is not None and generator.weight.grad.abs().sum() > 0
    still = Simulator(view, TOKENIZER, ResegmentationSettings(merge_rate=0, split_rate=0), 10, 1)
    assert loss(still.batch(np.arange(4), 0))["distillation"].item() == pytest.approx(0.0, abs=1e-3)


@pytest.mark.slow
def test_a_whole_experiment(tmp_path: Path) -> None:
    config = written(
        tmp_path,
        tiny(
            model="{family: m2m_100, d_model: 8, encoder_layers: 1, decoder_layers: 1, attention_heads: 2, ffn_dim: 8}",
            pretrain="{epochs: 2, batch_size: 500, precision: fp32, dev_sentences: 2}",
            sides="[encoder, decoder]",
            downstream="{corpus: downstream, shared: true, vocabulary: {size: 75, byte_fallback: false}}",
        ),
    )
    pipeline, store = finish(config)
    assert store.path(pipeline.report).is_dir()
