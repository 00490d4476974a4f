from __future__ import annotations

import json
from pathlib import Path

import pytest

from subgraft.subwords.vocabulary.alignment import NEW, align, only_special_tokens
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import fitted_tokenizer, german, german_tokenizer, multilingual_tokenizer


def test_a_vocabulary_against_itself_is_all_seen() -> None:
    tokenizer = multilingual_tokenizer()
    alignment = align(tokenizer, tokenizer)
    assert alignment.origins.tolist() == list(range(len(tokenizer)))
    assert alignment.special == len(tokenizer.special_ids)
    assert (alignment.unseen, alignment.others) == ((), ())


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_every_token_takes_the_row_of_the_same_entry_or_role(kind: str) -> None:
    source, target = multilingual_tokenizer(), german_tokenizer(90, kind)
    alignment = align(source, target)
    assert len(alignment.unseen) > 10
    for token, origin in enumerate(alignment.origins.tolist()):
        if token in target.special_ids:
            continue
        if origin == NEW:
            assert target.entries[token] not in source.ids
        elif target.entries[token] is not None:
            assert source.entries[origin] == target.entries[token]
    assert alignment.origins[target.special["pad"]] == source.special["pad"]
    assert alignment.origins[target.special["eos"]] == source.special["eos"]
    counted = alignment.seen + alignment.special + len(alignment.unseen) + len(alignment.others)
    assert counted == len(target)


def test_word_starts_and_continuations_are_never_confused() -> None:
    source, target = german_tokenizer(), german_tokenizer(90, "wordpiece")
    alignment = align(source, target)
    both = [
        surface
        for entry in target.ids
        if not entry.word_initial and (surface := entry.surface) and source.pieces.count(surface)
    ]
    assert both, "the vocabularies have continuations in common"
    for surface in both:
        origin = alignment.origins[target.pieces.index(f"##{surface}")]
        assert source.pieces[origin] == surface
        if surface in target.pieces:
            assert alignment.origins[target.pieces.index(surface)] in (NEW, *_ids(source, f"▁{surface}"))


def _ids(tokenizer: Tokenizer, piece: str) -> list[int]:
    return [i for i, known in enumerate(tokenizer.pieces) if known == piece]


def test_special_tokens_go_by_role_and_language_codes_by_code() -> None:
    source, target = multilingual_tokenizer(), fitted_tokenizer()
    alignment = align(source, target)
    assert target.special["mask"] != source.special["mask"]
    assert alignment.origins[target.special["mask"]] == source.special["mask"]
    for code, token in target.languages.items():
        assert alignment.origins[token] == source.languages[code]
    wordpiece = german_tokenizer(60, "wordpiece")
    assert align(source, wordpiece).origins[wordpiece.special["cls"]] == source.special["bos"]


def test_a_special_token_that_only_the_target_has_is_among_the_others() -> None:
    source = german_tokenizer()
    target = learn(german(), kind="unigram", size=90, mask=True, languages=("de_DE",))
    alignment = align(source, target)
    assert set(alignment.others) == {target.special["mask"], target.languages["de_DE"]}


def test_bare_marks_and_bytes_go_by_what_they_stand_for(tmp_path: Path) -> None:
    from tokenizers import ByteLevelBPETokenizer

    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(german(), vocab_size=320, special_tokens=["<|endoftext|>"])
    trained.save_model(str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    bytelevel = Tokenizer.load(tmp_path)
    fallback = learn(german(), kind="unigram", size=350, byte_fallback=True)
    forth, back = align(fallback, bytelevel), align(bytelevel, fallback)
    # The bytes of letters are letters, in a byte-level vocabulary; those of half a letter are bytes in both.
    assert forth.origins[bytelevel.byte_ids[0xC3]] == fallback.byte_ids[0xC3]
    assert back.origins[fallback.byte_ids[0xC3]] == bytelevel.byte_ids[0xC3]
    assert fallback.pieces[forth.origins[bytelevel.pieces.index("Ġ")]] == "▁"
    assert bytelevel.pieces[back.origins[fallback.pieces.index("▁")]] == "Ġ"


def test_special_tokens_alone_keep_their_rows_where_no_seen_token_does() -> None:
    source, target = multilingual_tokenizer(), fitted_tokenizer()
    usual = align(source, target)
    alone = only_special_tokens(usual, target)
    for token, origin in enumerate(usual.origins.tolist()):
        assert alone.origins[token] == (origin if token in target.special_ids else NEW)
    assert usual.seen > 0 == alone.seen
    assert alone.special == usual.special
    assert set(alone.unseen) == set(target.ids.values()) > set(usual.unseen)
    assert target.pieces.index("▁") in alone.others
    assert alone.special + len(alone.unseen) + len(alone.others) == len(target)
