"""One vocabulary of several languages' pieces: its size on disk, both of its forms, and what languages lose by it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentencepiece

from scripts import SCRIPTS, text_in
from subgraft.contrib.allocation.curve import measure
from subgraft.contrib.allocation.union import fixed_pieces, union
from subgraft.subwords.vocabulary.capacity import capacity
from subgraft.subwords.vocabulary.specials import special_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

CODES = ("aa_XX", "bb_XX", "cc_XX")


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_both_forms_cut_alike_and_no_language_is_worse_off_than_alone(
    kind: str, tmp_path: Path, mirror_if_any: Path | None
) -> None:
    texts = {script: text_in(script, mirror_if_any, 600) for script in SCRIPTS}
    curves = {
        script: measure(lambda lines=lines: iter(lines), kind, [30, 300, 1500])  # type: ignore[misc, arg-type]
        for script, lines in texts.items()
    }
    special = special_tokens(wordpiece=False, mask=True, languages=CODES, like=None)
    largest = {script: each.curve.sizes[-1] for script, each in curves.items()}
    chosen = {script: curves[script].vocabularies[size] for script, size in largest.items()}
    union(chosen, special, byte_fallback=True).save(tmp_path)

    loaded = Tokenizer.load(tmp_path)
    written = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    listed = {piece for piece, _ in written["model"]["vocab"]} | {each["content"] for each in written["added_tokens"]}
    pieces = set().union(*(each.keys() for each in chosen.values()))
    assert len(listed) == len(loaded) == len(pieces) + fixed_pieces(special, byte_fallback=True)
    assert set(loaded.languages) == set(CODES) and "mask" in loaded.special and len(loaded.byte_ids) == 256

    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece.model"))
    for script, lines in texts.items():
        assert model.encode(lines) == loaded.encode_batch(lines)
        result = capacity(loaded, lines)
        assert result.unknown == result.byte_tokens == 0
        assert result.alp >= curves[script].curve.alp[-1] * 1.005, script


def test_a_piece_that_is_spelled_like_a_special_token_is_that_token() -> None:
    special = special_tokens(wordpiece=False, mask=True, languages=(), like=None)
    result = union({"a": {"▁": -1.0, "a": -2.0, "<s>": -3.0, "<mask>": -3.0}}, special)
    assert len(result) == fixed_pieces(special, byte_fallback=False) + 2
    assert result.special["bos"] == 0 and result.pieces.count("<mask>") == 1
