"""Converted models segment real text as SentencePiece itself does."""

from __future__ import annotations

import io
import unicodedata
from itertools import islice
from pathlib import Path

import pytest
import sentencepiece

from subgraft.base.errors import UserError
from subgraft.config.settings_base import VocabularyKind
from subgraft.data.text import reading
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.sentencepiece_model import convert
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import invented

CORPORA = {
    "en": ("en-fr/tatoeba/train.en.gz", "en-fr/itdocs/train.en.gz"),
    "fr": ("en-fr/tatoeba/train.fr.gz", "en-fr/laws/train.fr.gz"),
    "de": ("en-de/tatoeba/train.de.gz", "en-de/tatoeba/dev.de.gz"),
    "ja": ("mono/wiki/ja.txt.gz", "mono/udhr/lang-tab-line.txt.gz"),
    "zh": ("en-zh/itdocs/train.zh.gz", "mono/novels/zh.txt.gz"),
}


def _differences(tokenizer: Tokenizer, texts: list[str], folder: Path) -> list[str]:
    tokenizer.save(folder)
    loaded = Tokenizer.load(folder)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / "sentencepiece.model"))
    expected = processor.encode(texts)
    result = loaded.encode_batch(texts)
    # SentencePiece keeps no special tokens of ours that come after its own pieces.
    assert max(map(max, filter(None, result))) < processor.get_piece_size()
    return [text for text, ours, theirs in zip(texts, result, expected, strict=True) if ours != theirs]


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("language", CORPORA)
def test_real_text(mirror: Path, tmp_path: Path, language: str, kind: VocabularyKind) -> None:
    learnt_from, other = (mirror / name for name in CORPORA[language])
    lines = list(islice(reading.lines(learnt_from), 8000))
    tokenizer = learn(lines, kind=kind, size=5000 if language in ("ja", "zh") else 3000, mask=True, languages=["xx_XX"])
    texts = [*lines, *islice(reading.lines(other), 4000)]
    assert _differences(tokenizer, texts, tmp_path) == []


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("byte_fallback", [False, True])
def test_unusual_text(tmp_path: Path, kind: VocabularyKind, byte_fallback: bool) -> None:
    size = 420 if byte_fallback else 160
    lines = [*invented(600), *(["がぎぐげご ざじず", "한국어 문장"] * 10)]
    tokenizer = learn(lines, kind=kind, size=size, byte_fallback=byte_fallback, character_coverage=1.0)
    texts = [
        "  white   space\tand\u3000more \u00a0 ",
        "www aaaa 0000000 --- ....",  # segmentations that score the same
        unicodedata.normalize("NFD", "がぎぐ 한국어 épée ệ"),
        "ﬁne ①②③ ＦＵＬＬ ｈａｌｆ ㍿ ½",
        "🙂 unknown 🙂🙂 ∂x",
        "▁marks ▁▁ and a \u200b zero\u200bwidth\ufeff",
        "",
        " ",
    ]
    assert _differences(tokenizer, [*texts, *invented(300, seed=9)], tmp_path) == []


def test_byte_fallback_decodes_what_no_piece_spells() -> None:
    tokenizer = learn(invented(600), kind="unigram", size=400, byte_fallback=True)
    assert tokenizer.decode(tokenizer.encode("farm 🙂 Ωmega.")) == "farm 🙂 Ωmega."


def test_models_of_characters_are_refused() -> None:
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(invented(100)),
        model_writer=written,
        vocab_size=25,
        model_type="char",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    with pytest.raises(UserError, match="only unigram and BPE"):
        convert(written.getvalue())
