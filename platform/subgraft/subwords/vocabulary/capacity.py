"""ALP, the vocabulary capacity of a language (Zheng et al., EMNLP 2021, section 2.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.sentencepiece_model import SCORE_STEPS
from subgraft.subwords.vocabulary.spelling import byte_tokens, chunks
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

UNUSED_COUNT = 0.5


def average_log_probability(counts: NDArray[np.int64], sentences: int) -> float:
    """ALP = (1/|D|) Σ_sentences Σ_pieces ln p(piece), in nats per sentence.

    p is the maximum likelihood unigram distribution n / N of the pieces' counts, so |D| ALP = Σ n ln n - N ln N. It
    grows towards 0 with the vocabulary. As a mean over sentences it is not comparable between languages or texts whose
    sentences differ in length.
    """
    used = counts[counts > 0].astype(np.float64)
    total = used.sum()
    return float((used @ np.log(used) - total * np.log(total)) / sentences) if total else 0.0


@dataclass(frozen=True)
class Capacity:
    """A text under one vocabulary.

    Attributes:
        sentences, characters, tokens: Their counts.
        words: Count of words, separated by white space.
        unknown: Unknown tokens. Each stands for characters that are not counted, which raises ALP.
        byte_tokens: Tokens that spell one byte of a character without a subword.
        pieces: Distinct pieces.
        alp: ALP of this text, by its own unigram distribution.
    """

    sentences: int
    words: int
    characters: int
    tokens: int
    unknown: int
    byte_tokens: int
    pieces: int
    alp: float

    @property
    def tokens_per_word(self) -> float:
        return self.tokens / max(1, self.words)

    @property
    def characters_per_token(self) -> float:
        return self.characters / max(1, self.tokens)

    def to_json(self) -> dict[str, int | float]:
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Capacity:
        return cls(**record)


def capacity(tokenizer: Tokenizer, lines: Iterable[str]) -> Capacity:
    """The capacity of a vocabulary on a text, without blank lines. Raises UserError for an empty text."""
    counts = np.zeros(len(tokenizer), dtype=np.int64)
    sentences = words = characters = 0
    for chunk in chunks(line for line in lines if line.strip()):
        sentences += len(chunk)
        words += sum(len(line.split()) for line in chunk)
        characters += sum(map(len, chunk))
        counts += _counts(tokenizer, chunk)
    if not sentences:
        raise UserError(
            "there is no text to evaluate a vocabulary on", hint="Give at least one line that is not blank."
        )
    unknown = tokenizer.special.get("unk")
    return Capacity(
        sentences=sentences,
        words=words,
        characters=characters,
        tokens=int(counts.sum()),
        unknown=0 if unknown is None else int(counts[unknown]),
        byte_tokens=int(counts[sorted(byte_tokens(tokenizer))].sum()),
        pieces=int(np.count_nonzero(counts)),
        alp=average_log_probability(counts, sentences),
    )


def piece_shares(tokenizer: Tokenizer, lines: Iterable[str]) -> dict[str, float]:
    """Log probabilities of a vocabulary's ordinary pieces in a text."""
    counts = sum((_counts(tokenizer, chunk) for chunk in chunks(lines)), np.zeros(len(tokenizer), dtype=np.int64))
    ids = [i for i in range(len(tokenizer)) if i not in tokenizer.special_ids and i not in tokenizer.byte_ids.values()]
    return log_shares([tokenizer.pieces[i] for i in ids], counts[ids])


def log_shares(pieces: Sequence[str], counts: NDArray[np.int64]) -> dict[str, float]:
    """Log probabilities of pieces by their counts, rounded so that SentencePiece and tokenizers add them up alike.

    An intermediate piece that does not occur in the text counts as half a token.
    """
    scores = np.log(np.maximum(counts, UNUSED_COUNT) / counts.sum())
    steps = np.round(scores * SCORE_STEPS) / SCORE_STEPS
    return dict(zip(pieces, steps.tolist(), strict=True))


def _counts(tokenizer: Tokenizer, lines: Sequence[str]) -> NDArray[np.int64]:
    ids = np.fromiter(chain.from_iterable(tokenizer.encode_batch(lines)), dtype=np.int64)
    return np.bincount(ids, minlength=len(tokenizer))
