"""Long texts are cut by SentencePiece itself, and every one as tokenizers cuts it."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import pytest

from subgraft.config.settings_base import VocabularyKind
from subgraft.data.text import reading
from subgraft.subwords.vocabulary.directory import Source, read_directory
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.sentencepiece_model import convert, parse
from subgraft.subwords.vocabulary.sentencepiece_segmenter import OPENERS, PLAIN, SentencePieceSegmenter
from subgraft.subwords.vocabulary.tokenizer import SENTENCEPIECE_MIN_TEXTS, Tokenizer
from vocabularies import invented

STRANGE = ("</s>", "<s>", "<unk>", "<0x41>", "xx_XX", "▁", "＜/s＞", "<／s>", " ", "  ", "\u0301", "\u200d", "\0", "\t")
CHARACTERS = [
    chr(code)
    for code in chain(range(0x3100), range(0xAC00, 0xD7A4, 7), range(0xF900, 0x10000), range(0x1F1E0, 0x1F700))
]


def one_at_a_time(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer.encode(text) for text in texts]


def damaged(texts: list[str], seed: int) -> list[str]:
    """Each text with some characters and spelled-out tokens in it that no text should have."""
    draw = random.Random(seed)
    result = []
    for text in texts:
        characters = list(text)
        for _ in range(draw.randrange(5)):
            strange = draw.choice(STRANGE) if draw.random() < 0.5 else draw.choice(CHARACTERS)
            characters.insert(draw.randrange(len(characters) + 1), strange)
        result.append("".join(characters))
    return result


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_every_text_is_cut_as_by_tokenizers(kind: VocabularyKind, byte_fallback: bool) -> None:
    lines = [*invented(600), *(["がぎぐげご ざじず", "한국어 문장"] * 10)]
    size = 420 if byte_fallback else 160
    tokenizer = learn(lines, kind=kind, size=size, byte_fallback=byte_fallback, languages=["xx_XX"])
    texts = [*damaged([*lines, *invented(600, seed=3)] * 2, seed=5), "w" * 3000, "", " ", "🙂" * 2000]
    assert len(texts) >= SENTENCEPIECE_MIN_TEXTS
    assert tokenizer.encode_batch(texts) == one_at_a_time(tokenizer, texts)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", ["en-fr/laws/train.fr.gz", "en-zh/itdocs/train.zh.gz"])
def test_real_text(mirror: Path, name: str) -> None:
    lines = list(islice(reading.lines(mirror / name), 8000))
    tokenizer = learn(lines, kind="unigram", size=3000)
    texts = [*lines, *damaged(lines[:4000], seed=2)]
    assert tokenizer.encode_batch(texts) == tokenizer._by_tokenizers(texts)


def test_sentencepiece_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = learn(invented(600), kind="unigram", size=160)
    texts = [*invented(SENTENCEPIECE_MIN_TEXTS), "with </s> in it"]
    expected, asked = one_at_a_time(tokenizer, texts), list[str]()

    def counted(inputs: list[str]) -> list[list[int]]:
        asked.extend(inputs)
        return one_at_a_time(tokenizer, inputs)

    monkeypatch.setattr(tokenizer, "_by_tokenizers", counted)
    assert tokenizer.encode_batch(texts) == expected
    assert asked[-1] == texts[-1] and len(asked) < len(texts) / 2, "a sample, and what spells a special token"


def test_a_vocabulary_that_is_not_its_model_s_is_left_to_tokenizers(tmp_path: Path) -> None:
    tokenizer = learn(invented(600), kind="unigram", size=160)
    tokenizer.save(tmp_path)
    source = read_directory(tmp_path)
    assert tokenizer._by_sentencepiece is not None
    other = learn(invented(600), kind="unigram", size=150).sentencepiece_model
    assert Tokenizer(replace(source, sentencepiece_model=other))._by_sentencepiece is None
    assert Tokenizer(replace(source, sentencepiece_model=b"no model"))._by_sentencepiece is None


def test_a_model_of_another_normalisation_or_scores_in_between_is_left_to_tokenizers() -> None:
    proto = parse(learn(invented(600), kind="unigram", size=160).sentencepiece_model or b"")
    proto.pieces[20].score += 1e-4
    assert _segmenter_of(proto.SerializeToString()) is None
    proto.pieces[20].score = round(proto.pieces[20].score)
    assert _segmenter_of(proto.SerializeToString()) is not None
    proto.normalizer_spec.precompiled_charsmap = proto.normalizer_spec.precompiled_charsmap[:-1] + b"x"
    assert _segmenter_of(proto.SerializeToString()) is None


def _segmenter_of(model: bytes) -> SentencePieceSegmenter | None:
    tokenizer = Tokenizer(Source(convert(model).to_str(), {}, model))
    return tokenizer._by_sentencepiece


def test_plain_characters_stand_alone() -> None:
    """None combines with another, none is changed by composing, and none becomes what begins a special token."""
    plain = [character for character in map(chr, range(0x110000)) if PLAIN.fullmatch(character)]
    assert len(plain) > 40_000
    for character in plain:
        assert unicodedata.category(character)[0] not in "MC" or unicodedata.category(character) == "Cn"
        assert not unicodedata.combining(character) and unicodedata.is_normalized("NFC", character)
        assert character in OPENERS or not OPENERS & set(unicodedata.normalize("NFKC", character))
    assert "▁" not in plain
