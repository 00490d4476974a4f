"""User-defined symbols: added tokens that are not special."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sentencepiece
import tokenizers
from tokenizers import AddedToken

from subgraft.base.errors import UserError
from subgraft.config.vocabularies import SamplingSettings
from subgraft.subwords.vocabulary.alignment import align
from subgraft.subwords.vocabulary.as_sentencepiece import as_sentencepiece
from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.extend import extend
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.sampling import Sampler
from subgraft.subwords.vocabulary.sentencepiece_model import convert
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.trim import trim
from subgraft.subwords.vocabulary.words import word_counts
from vocabularies import byte_level, invented, unigram, with_room

KINDS = ("unigram", "bpe", "wordpiece", "byte-level-bpe")
TEXT = invented(300)


def _learnt(kind: str) -> Tokenizer:
    return learn(TEXT, kind=kind, size=with_room(kind, 120))  # type: ignore[arg-type]


def _with_symbols(tokenizer: Tokenizer, *symbols: str | AddedToken, config: Any = None) -> Tokenizer:
    backend = tokenizers.Tokenizer.from_str(tokenizer.backend.to_str())
    backend.add_tokens(list(symbols))
    return Tokenizer(Source(backend.to_str(), tokenizer.config if config is None else config))


def _sentencepiece(kind: str, symbols: Sequence[str]) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([*TEXT, *(f"Farmers read {each} reread" for each in symbols)]),
        model_writer=model,
        model_type=kind,
        vocab_size=150,
        user_defined_symbols=list(symbols),
        minloglevel=2,
    )
    return model.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_a_symbol_is_one_token_of_a_text_and_appears_in_it(kind: str) -> None:
    tokenizer = _with_symbols(_learnt(kind), "⟦1⟧", "<br>")
    line = "Farmers read ⟦1⟧ or<br>"
    assert [tokenizer.pieces[i] for i in tokenizer.encode(line) if i in tokenizer.symbols] == ["⟦1⟧", "<br>"]
    assert "⟦1⟧" in tokenizer.decode(tokenizer.encode(line))
    assert not {tokenizer.special["eos"], tokenizer.special["pad"]} & set(tokenizer.encode("</s> [SEP] [PAD] <pad>"))


@pytest.mark.parametrize(
    "config",
    [
        {"eos_token": "<x>"},
        {"additional_special_tokens": ["<x>"]},
        {"extra_special_tokens": {"image": "<x>"}},
        {"added_tokens_decoder": {"9": {"content": "<x>", "special": True}}},
    ],
)
def test_tokens_that_the_configuration_calls_special_are_not_symbols(config: dict[str, Any]) -> None:
    tokenizer = _with_symbols(byte_level(TEXT, 300), "<x>", "<y>", config=config)
    assert set(tokenizer.symbols.values()) == {"<y>"}
    assert tokenizer.decode(tokenizer.backend.encode("a<x>b<y>").ids) == "ab<y>"


def test_malformed_names_of_special_tokens_are_ignored() -> None:
    config = {"additional_special_tokens": 3, "extra_special_tokens": [None, {}], "added_tokens_decoder": {"1": "<y>"}}
    assert set(_with_symbols(byte_level(TEXT, 300), "<y>", config=config).symbols.values()) == {"<y>"}


def test_letters_outside_ascii_are_decoded_in_byte_level_vocabularies() -> None:
    tokenizer = _with_symbols(byte_level(TEXT, 300), "café", "Ünï")
    line = "read café and ÜnïÜnï now"
    assert tokenizer.decode(tokenizer.encode(line)) == line


def test_entries_of_symbols_begin_words_unless_merges_form_them() -> None:
    plain = byte_level(TEXT, 400)
    continuation = next(e.surface for e in plain.ids if not e.word_initial and len(e.surface) > 2)
    tokenizer = _with_symbols(plain, "covid", continuation, "   ")
    entries = {symbol: tokenizer.entries[i] for i, symbol in tokenizer.symbols.items()}
    assert entries == {"covid": Entry("covid", True), continuation: Entry(continuation, False), "   ": None}
    assert tokenizer.frequency_rank[tokenizer.ids[Entry("covid", True)]] >= len(plain)
    assert tokenizer.fingerprint != plain.fingerprint


def test_symbols_of_both_vocabularies_keep_their_rows_and_new_ones_get_them_from_their_pieces() -> None:
    old = _with_symbols(byte_level(TEXT, 300), "covid", "   ")
    new = _with_symbols(_learnt("unigram"), "   ", "<tool>", "covid")
    by_symbol = {symbol: i for i, symbol in new.symbols.items()}
    alignment = align(old, new)
    assert [old.pieces[alignment.origins[by_symbol[symbol]]] for symbol in ("covid", "   ")] == ["covid", "   "]
    assert by_symbol["<tool>"] in alignment.unseen
    special = Tokenizer(Source(old.backend.to_str().replace('"special":false', '"special":true'), old.config))
    assert old.pieces[align(old, special).origins[special.pieces.index("covid")]] == "covid"


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_sampled_segmentations_retain_symbols(kind: str) -> None:
    tokenizer = _with_symbols(_learnt(kind), AddedToken("⟦1⟧", normalized=False))
    sampler = Sampler(tokenizer, SamplingSettings(alpha=0.2, dropout=0.3))
    generator = np.random.default_rng(1)
    (symbol,) = tokenizer.symbols
    samples = [sampler.sample("farmers overread⟦1⟧ unreadable teachers", generator) for _ in range(20)]
    assert all(ids.count(symbol) == 1 for ids in samples)
    assert len(set(map(tuple, samples))) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_extending_and_trimming_retain_symbols_and_the_text_around_them(kind: str) -> None:
    tokenizer = _with_symbols(_learnt(kind), "<br>", "unused")
    lines = [f"{line}<br>read<br>" for line in TEXT]
    assert not any("<br>" in word for word in word_counts(tokenizer.backend, lines))
    for changed in (extend(tokenizer, lines, 20), trim(tokenizer, lines)):
        assert set(changed.symbols.values()) == {"<br>", "unused"}
        (break_id,) = (i for i, symbol in changed.symbols.items() if symbol == "<br>")
        assert changed.encode(lines[0]).count(break_id) == 2
    trimmed = trim(tokenizer, lines)
    before, after = tokenizer.encode_batch(lines), trimmed.encode_batch(lines)
    assert [[tokenizer.pieces[i] for i in ids] for ids in before] == [[trimmed.pieces[i] for i in ids] for ids in after]


def test_a_hidden_symbol_is_not_found() -> None:
    tokenizer = _with_symbols(byte_level(TEXT, 300), "covid")
    hidden = tokenizer.without([Entry("covid", True)])
    assert tokenizer.encode("covid")[0] not in hidden.encode("covid")
    assert hidden.decode(hidden.encode("covid")) == "covid"


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_user_defined_pieces_of_sentencepiece_are_symbols(kind: str) -> None:
    model = _sentencepiece(kind, ["⟦1⟧", "<br>"])
    tokenizer = Tokenizer(Source(convert(model).to_str(), {}, model))
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    lines = ["Farmers read ⟦1⟧ unread", "read<br>read", "farm <br> ⟦1⟧⟦1⟧ sing", "Farmers  read"]
    assert [tokenizer.encode(line) for line in lines] == processor.encode(lines)
    assert [tokenizer.decode(ids) for ids in processor.encode(lines)] == processor.decode(processor.encode(lines))
    again = as_sentencepiece(tokenizer)
    assert again is not None
    assert sentencepiece.SentencePieceProcessor(model_proto=again).encode(lines) == processor.encode(lines)


def test_large_batches_with_symbols_are_segmented_as_single_texts() -> None:
    learnt = learn(TEXT, kind="unigram", size=120)
    backend = tokenizers.Tokenizer.from_str(learnt.backend.to_str())
    backend.add_tokens([AddedToken("sing", normalized=True), AddedToken("x2", normalized=True)])
    tokenizer = Tokenizer(Source(backend.to_str(), learnt.config, learnt.sentencepiece_model))
    lines = [*TEXT * 4, "we sing", "x² and ｓｉｎｇ", "X2 x2"]
    assert tokenizer._by_sentencepiece is not None
    assert tokenizer.encode_batch(lines) == [tokenizer.encode(line) for line in lines]
    assert sum(len(ids) for ids in tokenizer.encode_batch(["x²"] * 1000)) == sum(
        len(ids) for ids in [tokenizer.encode("x2")] * 1000
    )


def test_the_fingerprint_depends_on_symbols() -> None:
    plain = unigram(["▁a", "b"])
    assert _with_symbols(plain, "b").fingerprint != plain.fingerprint
    specification = json.loads(_with_symbols(plain, "b").backend.to_str())
    assert any(not token["special"] for token in specification["added_tokens"])


@pytest.mark.parametrize("kind", KINDS)
def test_words_are_single_tokens_of_a_learnt_vocabulary(kind: str) -> None:
    size = with_room(kind, 130)
    tokenizer = learn(TEXT, kind=kind, size=size, words=["⟦1⟧", "<br>", "farmers", "⟦1⟧"])  # type: ignore[arg-type]
    assert len(tokenizer) == size
    assert list(tokenizer.symbols.values()) == ["⟦1⟧", "<br>", "farmers"]
    line = "we read ⟦1⟧ farmers"
    assert [tokenizer.symbols[i] for i in tokenizer.encode(line) if i in tokenizer.symbols] == ["⟦1⟧", "farmers"]
    assert tokenizer.decode(tokenizer.encode(line)) == line
    if kind != "wordpiece":  # whose decoder puts a space before every word
        assert tokenizer.decode(tokenizer.encode("<br>read<br>read <br> read")) == "<br>read<br>read <br> read"


@pytest.mark.parametrize("kind", KINDS)
def test_words_come_first_in_an_extension(kind: str) -> None:
    old = _learnt(kind)
    extended = extend(old, TEXT, 10, words=["⟦1⟧", "dreamcatcher"])
    assert len(extended) == len(old) + 10
    assert extended.pieces[len(old) : len(old) + 2] == ("⟦1⟧", "dreamcatcher")
    assert extended.decode(extended.encode("we read ⟦1⟧ dreamcatcher")) == "we read ⟦1⟧ dreamcatcher"
    only = extend(old, TEXT, 1, words=["⟦1⟧"])
    assert only.pieces[len(old) :] == ("⟦1⟧",)
    assert [only.pieces[i] for i in only.encode(TEXT[0])] == [old.pieces[i] for i in old.encode(TEXT[0])]
    with pytest.raises(UserError, match="2 new words"):
        extend(old, TEXT, 1, words=["⟦1⟧", "⟦2⟧"])


@pytest.mark.parametrize("word", ["", " a", "a\nb", "de_DE", "</s>"])
def test_words_that_no_text_contains_are_refused(word: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"user-defined symbol {word!r}: it ")):
        learn(TEXT, kind="unigram", size=130, words=["⟦1⟧", word])


def test_a_word_that_the_normalizer_changes_is_refused() -> None:
    with pytest.raises(UserError, match="user-defined symbol 'X²': the vocabulary's normalizer changes it"):
        learn(TEXT, kind="unigram", size=130, words=["X²"])


def test_a_vocabulary_learnt_like_another_has_its_special_tokens_and_symbols() -> None:
    old = _with_symbols(byte_level(TEXT, 300), AddedToken("covid", single_word=True), "   ", "<unused3>")
    backend = tokenizers.Tokenizer.from_str(old.backend.to_str())
    backend.add_special_tokens(["<ent>", "<|reserved_1|>"])
    old = Tokenizer(Source(backend.to_str(), old.config))
    new = learn(TEXT, kind="byte-level-bpe", size=320, like=old)
    assert len(new) == 320
    assert set(new.symbols.values()) == {"covid", "   "}
    assert new.pieces.index("<ent>") in new.special_ids
    assert "<|reserved_1|>" not in new.pieces
    alignment = align(old, new)
    assert [old.pieces[alignment.origins[new.pieces.index(each)]] for each in ("covid", "<ent>")] == ["covid", "<ent>"]
    unknown = new.special["unk"]
    assert alignment.origins[unknown] == -1  # GPT-2's unknown token is its end


def test_a_token_that_normalisation_empties_is_never_found() -> None:
    plain = unigram(["▁a", "b"])
    backend = tokenizers.Tokenizer.from_str(plain.backend.to_str())
    backend.normalizer = tokenizers.normalizers.Strip()
    backend.add_tokens(["  ", "\n"])
    tokenizer = Tokenizer(Source(backend.to_str(), {}))
    assert tokenizer.encode("a</s>b  ") == plain.encode("a</s>b")
