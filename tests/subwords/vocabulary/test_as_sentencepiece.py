"""Tokenizers written as SentencePiece models: SentencePiece itself cuts texts alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sentencepiece
from tokenizers import normalizers

from old_vocabularies import GERMAN, KINDS, TASK
from subgraft.subwords.vocabulary.as_sentencepiece import as_sentencepiece
from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.extend import extend
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.trim import trim

TEXTS = [
    *GERMAN[:40],
    *TASK[:40],
    "",
    " ",
    "  two   spaces ",
    "½ ﬁ Ⅷ",
    "中文 ☃☃",
    "e\u0301",
    "</s> de_DE",
    "a" * 60,
]
BUILDS: dict[str, Callable[[], Tokenizer]] = {
    **{kind: KINDS[kind] for kind in ("unigram", "bpe", "llama")},
    "extended": lambda: extend(KINDS["unigram"](), TASK, 30),
    "trimmed": lambda: trim(KINDS["unigram"](), GERMAN[:150]),
}


@pytest.mark.parametrize("name", BUILDS)
def test_sentencepiece_segments_alike(name: str) -> None:
    tokenizer = BUILDS[name]()
    model = as_sentencepiece(tokenizer)
    assert model is not None
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert [processor.id_to_piece(i) for i in range(len(processor))] == list(tokenizer.pieces)
    # Of Llama's, an empty text is a mark for SentencePiece and nothing for tokenizers.
    texts = [text for text in TEXTS if text.strip() == text] if name == "llama" else TEXTS
    assert processor.encode(texts) == tokenizer.encode_batch(texts)


@pytest.mark.parametrize("kind", ["wordpiece", "byte-level"])
def test_other_kinds_have_no_such_model(kind: str) -> None:
    assert as_sentencepiece(KINDS[kind]()) is None


def test_a_normalisation_that_sentencepiece_cannot_do_is_found_out() -> None:
    tokenizer = KINDS["unigram"]()
    backend = tokenizer.backend
    backend.normalizer = normalizers.Sequence([normalizers.Lowercase()])
    assert as_sentencepiece(Tokenizer(Source(backend.to_str(), tokenizer.config))) is None
    # One that is made of known steps, and does not do what SentencePiece's would.
    backend.normalizer = normalizers.Replace("e", " ")
    assert as_sentencepiece(Tokenizer(Source(backend.to_str(), tokenizer.config))) is None
