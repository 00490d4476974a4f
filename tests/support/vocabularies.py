"""Small vocabularies that tests write by hand, and sentences invented here to learn others from."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from subgraft.subwords.vocabulary.directory import Source
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

STEMS = ["farm", "teach", "write", "read", "build", "paint", "sing", "clean", "drive", "bake", "heal", "mend", "dream"]
PREFIXES = ["", "", "", "re", "un", "over", "out"]
ENDINGS = ["", "", "er", "ers", "ing", "ed", "able", "ingly", "'s"]


def with_room(kind: str, size: int) -> int:
    """A size for so many learnt pieces: a byte-level vocabulary has the 256 bytes in addition."""
    return size + 256 * (kind == "byte-level-bpe")


def invented(count: int, seed: int = 1) -> list[str]:
    """Sentences of four to nine invented words, with commas and full stops."""
    chooser = random.Random(seed)

    def word() -> str:
        return chooser.choice(PREFIXES) + chooser.choice(STEMS) + chooser.choice(ENDINGS)

    def sentence() -> str:
        words = [word() for _ in range(chooser.randint(4, 9))]
        return " ".join(words).capitalize() + chooser.choice([".", ".", "!", ", " + word() + "?"])

    return [sentence() for _ in range(count)]


def unigram(
    pieces: Sequence[str],
    scores: Sequence[float] | None = None,
    *,
    byte_fallback: bool = False,
    last: Sequence[str] = (),
    config: Mapping[str, Any] | None = None,
) -> Tokenizer:
    """<s> <pad> </s> <unk> and the given pieces, each less probable than the one before unless scores say otherwise."""
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)] if byte_fallback else []
    if scores is None:
        scores = [-1.0 - 0.01 * i for i in range(len(pieces))]
    vocabulary = [*((piece, 0.0) for piece in special), *zip(pieces, scores, strict=True), *((b, 0.0) for b in bytes_)]
    backend = tokenizers.Tokenizer(models.Unigram(vocabulary, 3, byte_fallback))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    backend.add_special_tokens([*special, *last])
    return Tokenizer(Source(backend.to_str(), config or {}))


def wordpiece(pieces: Sequence[str], normalizer: normalizers.Normalizer | None = None) -> Tokenizer:
    """[PAD] [UNK] [CLS] [SEP] [MASK] and the given pieces; words are cut at white space only."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {piece: i for i, piece in enumerate([*special, *pieces])}
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens(special)
    return Tokenizer(Source(backend.to_str(), {}))


def byte_level(lines: Iterable[str], size: int) -> Tokenizer:
    """A vocabulary of GPT-2's kind, whose one special token begins, ends and stands for the unknown."""
    backend = tokenizers.Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(lines, trainer=trainer)
    return Tokenizer(Source(backend.to_str(), {"tokenizer_class": "GPT2Tokenizer"}))
