"""Vocabularies without what a task never uses: its text is cut as before, and everything can still be written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers import processors
from transformers import AutoTokenizer

from old_vocabularies import KINDS
from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.alignment import NEW, align
from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.trim import prune, trim
from toys import german
from vocabularies import byte_level, invented, unigram, wordpiece

TASK = german(20, seed=5)


def cut(tokenizer: Tokenizer, lines: list[str]) -> list[list[str]]:
    return [[tokenizer.pieces[i] for i in ids] for ids in tokenizer.encode_batch(lines)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_tasks_text_is_cut_as_before(kind: str) -> None:
    whole = KINDS[kind]()
    trimmed = trim(whole, TASK)
    assert len(trimmed) < len(whole)
    assert cut(trimmed, TASK) == cut(whole, TASK)
    assert [piece for piece in whole.pieces if piece in set(trimmed.pieces)] == list(trimmed.pieces)
    for role, token in whole.special.items():
        assert trimmed.pieces[trimmed.special[role]] == whole.pieces[token]
    assert list(trimmed.languages) == list(whole.languages)
    assert trimmed.byte_ids.keys() == whole.byte_ids.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_one_that_there_was(kind: str) -> None:
    whole = KINDS[kind]()
    trimmed = trim(whole, TASK)
    origins = align(whole, trimmed).origins.tolist()
    assert NEW not in origins
    assert [whole.pieces[origin] for origin in origins] == list(trimmed.pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_all_other_text_can_still_be_written(kind: str) -> None:
    whole = KINDS[kind]()
    trimmed = trim(whole, TASK)
    for line in [*german(100, seed=8), *invented(50), "Ω 🙂"]:
        assert trimmed.decode(trimmed.encode(line)) == whole.decode(whole.encode(line))


@pytest.mark.parametrize("kind", KINDS)
def test_every_piece_that_is_left_can_be_reached(kind: str) -> None:
    """In BPE a piece needs the pieces that it is merged from, however rarely they stand for themselves."""
    trimmed = trim(KINDS[kind](), german(400))
    entries = list(trimmed.ids)
    reached = {entry for entry, ids in zip(entries, trimmed.segment_batch(entries), strict=True) if len(ids) == 1}
    used = {trimmed.entries[i] for ids in trimmed.encode_batch(german(400)) for i in ids} - {None}
    assert used <= reached


@pytest.mark.parametrize("kind", KINDS)
def test_rare_pieces_go_and_their_text_stays(kind: str) -> None:
    whole, lines = KINDS[kind](), [*german(200, seed=3), *invented(10)]
    never, rarely = trim(whole, lines), trim(whole, lines, min_count=8)
    assert len(rarely) < len(never)
    assert [rarely.decode(ids) for ids in rarely.encode_batch(lines)] == [
        whole.decode(ids) for ids in whole.encode_batch(lines)
    ]
    uses = [piece for pieces in cut(rarely, lines) for piece in pieces]
    alone = {piece for piece in rarely.pieces if len(piece.removeprefix("##")) == 1}
    common = [piece for piece in set(uses) - alone if uses.count(piece) >= 8]
    assert len(common) > 10
    if kind == "unigram":
        ordinary = {rarely.pieces[i] for i in rarely.ordinary_ids.tolist()}
        assert not {piece for piece in ordinary - alone if uses.count(piece) < 8}


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_reads_it(kind: str, tmp_path: Path) -> None:
    trimmed = trim(KINDS[kind](), TASK)
    trimmed.save(tmp_path)
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), Tokenizer.load(tmp_path)
    assert len(theirs) == len(ours) == len(trimmed)
    for role, token in trimmed.special.items():
        assert getattr(theirs, f"{role}_token_id") == token
    for text in german(30, seed=6):
        assert theirs(text, add_special_tokens=False)["input_ids"] == ours.encode(text) == trimmed.encode(text)


@pytest.mark.parametrize(
    "whole", [unigram(["▁", "a", "b", "xb", "ab", "▁cb"]), wordpiece(["a", "##b", "ab", "xb", "##cb"])]
)
def test_pieces_with_characters_that_no_other_piece_spells_stay(whole: Tokenizer) -> None:
    trimmed = trim(whole, ["a ab ab"], min_count=3)
    for line in ("xb", "acb cb", "xbab"):
        assert trimmed.decode(trimmed.encode(line)) == whole.decode(whole.encode(line))
    assert "ab" not in trimmed.pieces and len(trimmed) == len(whole) - 1


def test_what_stands_around_a_text_gets_the_new_ids(tmp_path: Path) -> None:
    """As a published directory has it: ids in the post-processor and in the added tokens."""
    learnt = learn(german(300), kind="unigram", size=200, mask=True, languages=["de_DE"])
    end, code = learnt.special["eos"], learnt.languages["de_DE"]
    learnt.backend.post_processor = processors.TemplateProcessing(
        single="$A </s> de_DE", special_tokens=[("</s>", end), ("de_DE", code)]
    )
    decoder = {str(code): {"content": "de_DE", "special": True}}
    published = Tokenizer(Source(learnt.backend.to_str(), {**learnt.config, "added_tokens_decoder": decoder}))
    trim(published, TASK).save(tmp_path)
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), Tokenizer.load(tmp_path)
    assert ours.languages["de_DE"] < code
    assert theirs(TASK[0])["input_ids"] == [*ours.encode(TASK[0]), ours.special["eos"], ours.languages["de_DE"]]
    assert "added_tokens_decoder" not in json.loads((tmp_path / "tokenizer_config.json").read_text())


def test_tokens_after_the_models_own_keep_their_meaning() -> None:
    """As Qwen has them: chat marks beyond the merges, which tokenizers numbers again when the vocabulary shrinks."""
    backend = byte_level(invented(300), 340).backend
    backend.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    chat = Tokenizer(Source(backend.to_str(), {"eos_token": "<|im_end|>"}))
    trimmed = trim(chat, invented(3))
    assert len(trimmed) < len(chat)
    assert trimmed.pieces[-2:] == ("<|im_start|>", "<|im_end|>") and trimmed.special["eos"] == len(trimmed) - 1


def test_no_text_is_refused() -> None:
    with pytest.raises(UserError, match="no text"):
        trim(KINDS["unigram"](), ["", "  "])


@pytest.mark.parametrize("kind", KINDS)
def test_pruning_drops_what_nothing_needs(kind: str) -> None:
    whole = KINDS[kind]()
    most = len(whole) - len(trim(whole, TASK))
    for count in (1, most // 2, 10 * len(whole)):
        pruned = prune(whole, TASK, count)
        assert len(whole) - len(pruned) == min(count, most)
        assert cut(pruned, TASK) == cut(whole, TASK)
        assert [piece for piece in whole.pieces if piece in set(pruned.pieces)] == list(pruned.pieces)
    assert set(pruned.pieces) == set(trim(whole, TASK).pieces)
    with pytest.raises(UserError):
        prune(whole, [], 1)
