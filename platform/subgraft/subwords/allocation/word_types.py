"""A text as counts of word types. This is sufficient, because no SentencePiece piece crosses white space."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.entry import SPACE_MARK

NORMALIZATION = "nmt_nfkc"
_LINES_AT_ONCE = 10_000


@dataclass(frozen=True)
class WordTypes:
    """Counts of the words of a text. In scripts without spaces a word is a sentence.

    Attributes:
        words: Counts of words, normalised as in SentencePiece, without the initial mark.
        sentences: Lines that contain a word.
    """

    words: Mapping[str, int]
    sentences: int

    @classmethod
    def of(cls, lines: Iterable[str]) -> WordTypes:
        """Raises UserError if there is no word."""
        words: Counter[str] = Counter()
        sentences = 0
        read = normalised(lines)
        while chunk := list(islice(read, _LINES_AT_ONCE)):
            words.update("".join(chunk).split(SPACE_MARK))
            sentences += sum(bool(line.strip(SPACE_MARK)) for line in chunk)
        words.pop("", None)  # what is before a mark at a line's beginning
        if not words:
            raise UserError("there is no text", hint="Give at least one line that is not blank.")
        return cls(words, sentences)

    @property
    def tokens(self) -> int:
        """The number of words in the text."""
        return sum(self.words.values())

    def counts(self, model: bytes) -> NDArray[np.int64]:
        """Counts of a model's pieces in the text [pieces]; the model must not normalise."""
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        encoded = processor.encode(list(self.words))
        times = np.fromiter(self.words.values(), dtype=np.int64, count=len(self.words))
        each = np.repeat(times, np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
        ids = np.fromiter(chain.from_iterable(encoded), dtype=np.int64, count=len(each))
        # Exact: these are whole numbers, and far below 2**53.
        return np.bincount(ids, weights=each, minlength=processor.get_piece_size()).astype(np.int64)


def normalised(lines: Iterable[str]) -> Iterator[str]:
    """Lines normalised by SentencePiece, with its mark in place of spaces and before the first word."""
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name=NORMALIZATION)
    for line in lines:
        yield normalizer.normalize(line)
