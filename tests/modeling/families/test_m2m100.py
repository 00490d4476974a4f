"""M2M-100 and NLLB: what transformers computes is what is read from them here."""

from __future__ import annotations

from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.settings_base import SideName
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.families import SequenceFormat, family_named, language_code
from subgraft.modeling.inference.translate import Translator
from subgraft.modeling.sides import (
    decoder_states_from_memory,
    encoder_states,
    input_scale,
    side,
)
from subgraft.pipeline.compute.transfer import transfer
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData
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


def test_a_transferred_one_begins_with_the_code_of_the_new_vocabulary(tmp_path: Path) -> None:
    new = fitted_tokenizer()
    Bundle(m2m100(), TOKENIZER, TOKENIZER).save(tmp_path / "old")
    transfer(tmp_path / "old", dict.fromkeys(SIDES, new), Method("mean"), tmp_path / "new")
    form = Bundle.load(tmp_path / "new").sequence_format(LANGUAGES)
    assert form.target_beginning == new.languages["de_DE"]


def test_embeddings_given_in_place_of_ids_are_scaled() -> None:
    model, batch = m2m100(), Seq2SeqData(_examples(), PADDING, PADDING).batch(np.arange(6), 0)
    assert (batch.labels[:, 0] == GERMAN).all()
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


def test_what_would_change_the_model_is_refused(tmp_path: Path) -> None:
    Bundle(m2m100(), TOKENIZER, TOKENIZER).save(tmp_path / "old")
    wordpiece = learn(english() + german(), kind="wordpiece", size=150, languages=("de_DE", "en_XX"))
    assert wordpiece.special["pad"] != PADDING
    with pytest.raises(UserError, match="counts positions from its padding id"):
        transfer(tmp_path / "old", dict.fromkeys(SIDES, wordpiece), Method("mean"), tmp_path / "new")
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
