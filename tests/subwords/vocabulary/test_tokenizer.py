from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import normalizers

from subgraft.subwords.vocabulary.entry import Entry, Mark
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import byte_level, invented, unigram, wordpiece

LEARNT = {
    Mark.SENTENCEPIECE: learn(invented(600), kind="unigram", size=120, character_coverage=1.0),
    Mark.WORDPIECE: learn(invented(600), kind="wordpiece", size=150),
    Mark.BYTELEVEL: byte_level(invented(600), 400),
}


@pytest.fixture(params=list(LEARNT), ids=lambda mark: mark.name.lower())
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return LEARNT[request.param]


def test_entries_and_ids_agree(tokenizer: Tokenizer) -> None:
    assert len(tokenizer) == len(tokenizer.pieces) == len(tokenizer.entries) == len(tokenizer.frequency_rank)
    assert len(tokenizer.ids) > 60
    for entry, i in tokenizer.ids.items():
        assert tokenizer.entries[i] == entry == tokenizer.parse(tokenizer.pieces[i])
    assert all(tokenizer.entries[i] is None for i in tokenizer.special_ids)


def test_commonness_ranks_every_piece_once(tokenizer: Tokenizer) -> None:
    assert sorted(tokenizer.frequency_rank) == list(range(len(tokenizer)))


def test_commonness_follows_scores_then_ids() -> None:
    ours = unigram(["c", "a", "b", "d"], [-3.0, -1.0, -3.0, -2.0])
    ranked = [ours.pieces[i] for i in np.argsort(ours.frequency_rank) if ours.entries[i] is not None]
    assert ranked == ["a", "d", "c", "b"]


def test_commonness_follows_merges() -> None:
    ours = learn(invented(600), kind="bpe", size=120)
    merged = [piece for i, piece in enumerate(ours.pieces) if len(piece) > 1 and i not in ours.special_ids]
    ranks = [ours.frequency_rank[ours.pieces.index(piece)] for piece in merged if not piece.startswith("<")]
    assert ranks == sorted(ranks)


def test_segmenting_a_vocabulary_entry_gives_itself(tokenizer: Tokenizer) -> None:
    # WordPiece matches the longest piece, byte-level BPE rebuilds its own merges; the most probable unigram
    # segmentation of a piece may be its parts, so there the piece is only required to be spelled by them.
    entries = list(tokenizer.ids)
    for entry, ids in zip(entries, tokenizer.segment_batch(entries), strict=True):
        if tokenizer.mark is Mark.WORDPIECE:
            assert ids == [tokenizer.ids[entry]] or not entry.surface.isalpha()
        parts = [tokenizer.entries[i] for i in ids]
        assert "".join(part.surface for part in parts if part is not None) == entry.surface


@given(st.text("farmteachwribuldpnsg", min_size=1, max_size=12), st.booleans(), st.sampled_from(Mark))
def test_a_segmentation_begins_a_word_only_where_the_entry_does(text: str, word_initial: bool, mark: Mark) -> None:
    tokenizer = LEARNT[mark]
    ids = tokenizer.segment(Entry(text, word_initial))
    pieces = [tokenizer.pieces[i] for i in ids]
    parts = [part for part in (tokenizer.entries[i] for i in ids) if part is not None]
    assert "".join(part.surface for part in parts) == text
    begins = mark is not Mark.WORDPIECE and pieces[0] == mark.value
    assert (begins or parts[0].word_initial) is word_initial
    assert not any(part.word_initial for part in parts[1:])


def test_wordpiece_continuations_are_cut_greedily() -> None:
    ours = wordpiece(["ima", "noth", "##gine", "##d", "##ing", "##g", "##i", "##ined"])
    assert [ours.pieces[i] for i in ours.segment(Entry("imagined", True))] == ["ima", "##gine", "##d"]
    assert [ours.pieces[i] for i in ours.segment(Entry("gined", False))] == ["##gine", "##d"]
    assert ours.segment(Entry("gone", False)) == [ours.special["unk"]]


def test_wordpiece_continuations_in_chinese_are_not_spaced_out() -> None:
    ours = wordpiece(["語", "##漢", "##字"], normalizers.BertNormalizer(lowercase=False))
    assert [ours.pieces[i] for i in ours.segment(Entry("漢字", False))] == ["##漢", "##字"]


def test_special_tokens_in_the_text_are_ordinary_text(tokenizer: Tokenizer) -> None:
    for name in ("bos", "eos", "pad", "mask"):
        if name in tokenizer.special:
            spelled = tokenizer.pieces[tokenizer.special[name]]
            for ids in (tokenizer.encode(f"a {spelled} b{spelled}"), tokenizer.segment(Entry(spelled, False))):
                assert tokenizer.special_ids.isdisjoint(set(ids) - {tokenizer.special.get("unk")})


def test_encoding_in_a_batch_is_encoding_one_by_one(tokenizer: Tokenizer) -> None:
    texts = [*invented(50, seed=7), "", "</s> <s>"]
    assert tokenizer.encode_batch(texts) == [tokenizer.encode(text) for text in texts]
    entries = list(tokenizer.ids)[::3]
    assert tokenizer.segment_batch(entries) == [tokenizer.segment(entry) for entry in entries]


@pytest.mark.parametrize("mark", [Mark.SENTENCEPIECE, Mark.BYTELEVEL])
def test_decoding_gives_the_text_back(mark: Mark) -> None:
    tokenizer = LEARNT[mark]
    for text in invented(50, seed=3):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        specials = [i for role, i in tokenizer.special.items()]
        assert tokenizer.decode([*specials, *ids, *specials]) == text


def test_byte_ids() -> None:
    assert sorted(LEARNT[Mark.BYTELEVEL].byte_ids) == list(range(256))
    assert not LEARNT[Mark.SENTENCEPIECE].byte_ids
    fallback = unigram(["▁a"], byte_fallback=True)
    assert fallback.pieces[fallback.byte_ids[0xE4]] == "<0xE4>"
    assert all(fallback.entries[i] is None for i in fallback.byte_ids.values())
    assert not fallback.special_ids & set(fallback.byte_ids.values())
    literal = unigram(["▁a", "<0xE4>"])
    assert literal.entries[literal.pieces.index("<0xE4>")] == Entry("<0xE4>", False)


def test_roles_and_languages() -> None:
    ours = unigram(["▁a", "b"], last=["<mask>", "en_XX", "zho_Hans", "<extra>"])
    size = len(ours)
    assert ours.special == {"bos": 0, "pad": 1, "eos": 2, "unk": 3, "mask": size - 4}
    assert ours.languages == {"en_XX": size - 3, "zho_Hans": size - 2}
    assert ours.special_ids == {0, 1, 2, 3, size - 4, size - 3, size - 2, size - 1}
    bert = wordpiece(["a"])
    assert bert.special["bos"] == bert.special["cls"] and bert.special["eos"] == bert.special["sep"]
    gpt2 = LEARNT[Mark.BYTELEVEL]
    assert gpt2.special["bos"] == gpt2.special["eos"] and "pad" not in gpt2.special


def test_the_configuration_names_roles() -> None:
    named = unigram(["▁a"], last=["<end>"], config={"eos_token": {"content": "<end>"}, "mask_token": None})
    assert named.pieces[named.special["eos"]] == "<end>"
    assert "mask" not in named.special


def test_saved_and_loaded_it_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "saved")
    for again in (Tokenizer.load(tmp_path / "saved"), copy.deepcopy(tokenizer)):
        assert again.fingerprint == tokenizer.fingerprint
        assert again.special == tokenizer.special
        assert again.entries == tokenizer.entries
        texts = invented(20, seed=5)
        assert again.encode_batch(texts) == tokenizer.encode_batch(texts)


def test_the_fingerprint_distinguishes_vocabularies() -> None:
    vocabularies = [
        unigram(["▁a", "b"]),
        unigram(["▁a", "c"]),
        unigram(["▁a", "b"], [-1.0, -9.0]),
        unigram(["▁a", "b"], last=["<mask>"]),
        unigram(["▁a", "b"], config={"bos_token": "</s>"}),
        wordpiece(["▁a", "b"]),
    ]
    assert len({vocabulary.fingerprint for vocabulary in vocabularies}) == len(vocabularies)
    assert unigram(["▁a", "b"]).fingerprint == vocabularies[0].fingerprint
