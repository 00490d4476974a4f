"""Cells of a text are what readers see: whole characters, with all tokens that spell them."""

from __future__ import annotations

import pytest

from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.segmentation import readable, segment
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import german

KINDS = ("unigram", "bpe", "byte-level-bpe", "wordpiece")
TEXTS = (
    "",
    " ",
    "der  Garten ",
    "Grün 😀 x",
    "👩‍👩‍👧 🇩🇪🇫🇷",
    "नमस्ते क्षि",
    "שלום a",
    "مرحبا بالعالم",
    "<b>&\n\tx",
    "</s> y",
    "e\u0301t 각",
)


@pytest.fixture(scope="module", params=KINDS)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    fallback = request.param in ("unigram", "bpe")
    lines = [*german(), "नमस्ते दुनिया क्षमा", "שלום עולם"]
    return learn(lines, kind=request.param, size=420, byte_fallback=fallback)


@pytest.mark.parametrize("text", TEXTS)
def test_cells_are_the_text_and_their_tokens_what_the_model_reads(tokenizer: Tokenizer, text: str) -> None:
    whole = segment(tokenizer, text)
    assert "".join(cell.text for cell in whole.cells) == text
    ids = [token for cell in whole.cells for token in cell.tokens]
    assert ids == tokenizer.encode(text) and whole.tokens == len(ids)
    assert whole.decoded == tokenizer.decode(ids)
    assert whole.unknown == ids.count(tokenizer.special["unk"])


@pytest.mark.parametrize("character", ["😀", "👩‍👩‍👧", "🇩🇪", "क्षि", "e\u0301"])
def test_no_cell_ends_within_a_character(tokenizer: Tokenizer, character: str) -> None:
    ends, end = set(), 0
    for cell in segment(tokenizer, f"a {character}a").cells:
        end += len(cell.text)
        ends.add(end)
    assert ends.isdisjoint(range(3, 2 + len(character)))


def test_two_flags_are_two_characters() -> None:
    tokenizer = learn(german(), kind="byte-level-bpe", size=300)
    assert [(cell.text, len(cell.tokens)) for cell in segment(tokenizer, "🇩🇪🇫🇷").cells] == [("🇩🇪", 8), ("🇫🇷", 8)]


def test_kinds_of_cells() -> None:
    in_bytes = learn(german(), kind="bpe", size=420, byte_fallback=True)
    byte_level, word_pieces = (
        learn(german(), kind="byte-level-bpe", size=300),
        learn(german(), kind="wordpiece", size=150),
    )
    assert [cell.kind for cell in segment(in_bytes, "😀").cells] == ["bytes"]
    assert [cell.kind for cell in segment(byte_level, "ß😀").cells] == ["bytes", "bytes"]
    assert [cell.kind for cell in segment(word_pieces, "garten 😀").cells][-1] == "unknown"
    assert {cell.kind for cell in segment(in_bytes, "garten haus").cells} == {""}, "a word's mark is not a character"


def test_pieces_are_read_as_text() -> None:
    tokenizer = learn(["schön grün"] * 20, kind="byte-level-bpe", size=268)
    pieces = [readable(tokenizer, token) for token in tokenizer.encode("schön grün")]
    assert "".join(pieces) == "schön␣grün"
    assert [readable(tokenizer, token) for token in tokenizer.encode("é\n")] == ["<0xC3>", "<0xA9>", "↵"]
    sentencepiece = learn(german(), kind="bpe", size=420, byte_fallback=True)
    assert (
        "".join(readable(sentencepiece, token) for token in sentencepiece.encode("garten é")) == "␣garten␣<0xC3><0xA9>"
    )
    word_pieces = learn(german(), kind="wordpiece", size=150)
    assert [readable(word_pieces, token) for token in range(150)] == list(word_pieces.pieces)
    special = next(iter(tokenizer.special.values()))
    assert readable(tokenizer, special) == tokenizer.pieces[special]
