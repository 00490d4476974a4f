"""A tokenizer.json that would make tokenizers panic, abort Python or take a machine's memory is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import sentencepiece_model_pb2

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.sentencepiece_model import BPE, NORMAL, UNKNOWN
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

PIECES = {"a": 0, "b": 1, "ab": 2, "é": 3, "<unk>": 4}


def bpe(**changes: Any) -> dict[str, Any]:
    return {"type": "BPE", "vocab": PIECES, "merges": ["a b"], "unk_token": "<unk>", **changes}


def added(token_id: Any, content: Any = "<x>") -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, "special": True, **flags}


def written(directory: Path, model: Any, **others: Any) -> Path:
    parts = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    whole = {"version": "1.0", "added_tokens": [], **dict.fromkeys(parts), "model": model, **others}
    (directory / "tokenizer.json").write_text(json.dumps(whole))
    return directory


def test_a_sound_one_is_read(tmp_path: Path) -> None:
    assert Tokenizer.load(written(tmp_path, bpe())).encode("ab") == [2]


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (bpe(continuing_subword_prefix="####"), "merge 1"),
        (bpe(continuing_subword_prefix="#", merges=["a é"]), "merge 1"),
        (bpe(continuing_subword_prefix="é"), "ASCII"),
        (bpe(merges=["a x"]), "missing from the vocabulary"),
        (bpe(merges=["ab"]), "two pieces are expected"),
        (bpe(merges=[["a"]]), "two pieces are expected"),
        (bpe(merges=None), "list of merges"),
        (bpe(vocab={**PIECES, "q": 50_000_000}), r"(?s)50,000,001.*SUBGRAFT_MAX_PIECES"),
        (bpe(vocab={**PIECES, "q": -1}), "whole numbers from 0"),
        (bpe(vocab={**PIECES, "q": 1.5}), "whole numbers from 0"),
        ({"type": "Unigram", "vocab": [["a"]], "unk_id": 0}, "a piece and its score"),
        ({"type": "Unigram", "vocab": [], "unk_id": 0}, "cannot be used"),
        ({"type": []}, "model with a type"),
        ([1], "model with a type"),
    ],
)
def test_an_unsound_model_is_refused(tmp_path: Path, model: Any, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Tokenizer.load(written(tmp_path, model))


@pytest.mark.parametrize("token", [added(50_000_000), added(4294967295), added(-1), added(7, 3), added(True), 3])
def test_unsound_added_tokens_are_refused(tmp_path: Path, token: Any) -> None:
    with pytest.raises(UserError, match=r"SUBGRAFT_MAX_PIECES|added_tokens must be"):
        Tokenizer.load(written(tmp_path, bpe(), added_tokens=[token]))


@pytest.mark.slow
def test_two_million_pieces_are_refused_in_any_form(tmp_path: Path) -> None:
    many = {f"{i:x}": i for i in range(2_000_000)}
    with pytest.raises(UserError, match="SUBGRAFT_MAX_PIECES"):
        Tokenizer.load(written(tmp_path, bpe(vocab=many, merges=[])))
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "vocab.txt").write_text("\n".join(many))
    with pytest.raises(UserError, match="SUBGRAFT_MAX_PIECES"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize(
    "others",
    [
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
        {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
        {"decoder": {"type": "Strip", "content": "a", "start": 10**9, "stop": 10**9}},
    ],
)
def test_a_panic_is_one_message_whenever_it_comes(tmp_path: Path, others: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="this vocabulary cannot"):
        loaded = Tokenizer.load(written(tmp_path, bpe(), **others))
        loaded.encode("ab ab")
        loaded.decode([0, 1])


def test_what_a_vocabulary_cannot_cut_is_one_message(tmp_path: Path) -> None:
    loaded = Tokenizer.load(written(tmp_path, {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": None}))
    with pytest.raises(UserError, match="cannot segment the text"):
        loaded.encode_batch(["z"])


@pytest.mark.parametrize("text", ["[1]", '{"bos_token": "\\ud800"}', '{"added_tokens_decoder": {"50000000": {}}}'])
def test_damaged_settings_of_a_tokenizer_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "vocab.txt").write_text("[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "tokenizer_config.json").write_text(text)
    with pytest.raises(UserError, match=r"not a JSON object|half a character|SUBGRAFT_MAX_PIECES"):
        Tokenizer.load(tmp_path)


def test_other_files_next_to_a_vocabulary_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\n")
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "modules.json").write_text("[1]")
    (tmp_path / "tokenizer_config.json").write_text('{"fast_tokenizer_files": ["../../tokenizer.9.json"]}')
    assert Tokenizer.load(tmp_path).encode("aa") == [5, 6]


def test_a_sentencepiece_model_of_one_endless_piece_is_refused(tmp_path: Path) -> None:
    model = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    model.trainer_spec.model_type = BPE
    model.pieces.add(piece="<unk>", type=UNKNOWN)
    model.pieces.add(piece="a" * 5_000_000, score=-1.0, type=NORMAL)
    (tmp_path / "spiece.model").write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match="SUBGRAFT_MAX_PIECE_LENGTH"):
        Tokenizer.load(tmp_path)
