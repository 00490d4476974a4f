from __future__ import annotations

from typing import Any

import pytest

from subgraft.base.errors import UserError
from subgraft.embeddings.transplanting.token_ids import TokenIds, check_encoder_roles, translate_token_ids
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import fitted_tokenizer, german, german_tokenizer, gpt2, marian, mbart, multilingual_tokenizer


def _translated(model: Any, source: Tokenizer, target: Tokenizer) -> TokenIds:
    """The ids of a model whose decoder gets the target vocabulary."""
    return translate_token_ids(model, {"decoder": source}, {"decoder": target})


def test_ids_follow_roles_and_language_codes() -> None:
    model, source, target = mbart(), multilingual_tokenizer(), fitted_tokenizer()
    model.generation_config.forced_bos_token_id = source.languages["en_XX"]
    model.config.decoder_start_token_id = source.languages["de_DE"]
    translated = _translated(model, source, target)
    assert translated.values["generation_config"]["forced_bos_token_id"] == target.languages["en_XX"]
    assert translated.values["config"]["decoder_start_token_id"] == target.languages["de_DE"]
    assert translated.values["config"]["eos_token_id"] == target.special["eos"]
    translated.apply(model)
    assert model.config.decoder_start_token_id == target.languages["de_DE"]
    assert model.generation_config.forced_bos_token_id == target.languages["en_XX"]


def test_where_one_token_has_several_roles_the_settings_own_comes_first() -> None:
    model, source = gpt2(), german_tokenizer(60, "wordpiece")
    target = german_tokenizer()
    model.config.bos_token_id = model.config.decoder_start_token_id = source.special["bos"]
    model.config.eos_token_id = [source.special["sep"], source.special["pad"]]
    model.generation_config.eos_token_id = model.generation_config.bos_token_id = source.special["pad"]
    translated = _translated(model, source, target)
    assert translated.values["config"]["bos_token_id"] == target.special["bos"]
    assert translated.values["config"]["eos_token_id"] == [target.special["eos"], target.special["pad"]]


def test_of_several_ends_those_stay_that_there_are() -> None:
    """As of a Llama 3 that ends a text or a turn, and a vocabulary that knows of no turns."""
    model, source, target = gpt2(), learn(german(), kind="unigram", size=90, mask=True), german_tokenizer()
    model.config.eos_token_id = [source.special["eos"], source.special["mask"]]
    translated = _translated(model, source, target)
    assert translated.values["config"]["eos_token_id"] == [target.special["eos"]]
    assert translated.dropped == ("eos_token_id: <mask>",)
    model.config.eos_token_id = [source.special["mask"]]
    with pytest.raises(UserError, match="mask"):
        _translated(model, source, target)


def test_lists_of_generation_keep_what_the_target_has_and_tell_what_they_lose() -> None:
    model, source, target = marian(), german_tokenizer(), german_tokenizer(60)
    lost = next(i for i, entry in enumerate(source.entries) if entry is not None and entry not in target.ids)
    entry, shared = next((entry, i) for entry, i in source.ids.items() if entry in target.ids)
    model.generation_config.bad_words_ids = [[source.special["pad"]], [lost], [shared, shared]]
    model.generation_config.suppress_tokens = [lost]
    translated = _translated(model, source, target)
    assert translated.values["generation_config"]["bad_words_ids"] == [[target.special["pad"]], [target.ids[entry]] * 2]
    assert translated.values["generation_config"]["suppress_tokens"] is None
    assert translated.dropped == (f"bad_words_ids: {source.pieces[lost]}", f"suppress_tokens: {source.pieces[lost]}")


def test_what_the_target_lacks_is_named_all_at_once() -> None:
    model, source = mbart(), multilingual_tokenizer()
    model.config.decoder_start_token_id = source.languages["de_DE"]
    with pytest.raises(UserError, match=r"de_DE, language code \(de_DE, en_XX"):
        _translated(model, source, german_tokenizer())
    with pytest.raises(UserError, match="encoder uses: language code"):
        check_encoder_roles(source, german_tokenizer())


def test_an_id_outside_the_models_vocabulary_is_reported() -> None:
    model = gpt2()
    model.config.eos_token_id = 50256
    with pytest.raises(UserError, match=r"eos \(id 50256"):
        _translated(model, german_tokenizer(), german_tokenizer())


def test_a_vocabulary_without_padding_does_not_fit() -> None:
    target = learn(german(), kind="unigram", size=60)
    without = dict(target.special)
    del without["pad"]
    target.special = without
    with pytest.raises(UserError, match="decoder uses: pad"):
        _translated(marian(), german_tokenizer(), target)
    with pytest.raises(UserError, match="encoder uses: pad"):
        check_encoder_roles(german_tokenizer(), target)
