"""Learn pieces with SentencePiece from counts of word types: the requested number, or as many as possible.

Counts are sufficient, because no SentencePiece piece crosses white space.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import sentencepiece
from numpy.typing import NDArray

from subgraft.base.errors import OperationalError, UserError
from subgraft.subwords.vocabulary.entry import SPACE_MARK
from subgraft.subwords.vocabulary.learning_errors import too_small
from subgraft.subwords.vocabulary.sentencepiece_model import LONGEST_LINE, finished, ordinary_pieces, train

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
        """Count the words of lines. Raises UserError if there is none."""
        words: Counter[str] = Counter()
        sentences = 0
        normalised = normalise(lines)
        while chunk := list(islice(normalised, _LINES_AT_ONCE)):
            words.update("".join(chunk).split(SPACE_MARK))
            sentences += sum(bool(line.strip(SPACE_MARK)) for line in chunk)
        words.pop("", None)  # the empty string before a mark at the beginning of a line
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
        word_counts = np.fromiter(self.words.values(), dtype=np.int64, count=len(self.words))
        weights = np.repeat(word_counts, np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
        ids = np.fromiter(chain.from_iterable(encoded), dtype=np.int64, count=len(weights))
        # The float64 sums are exact, because they are whole numbers far below 2**53.
        return np.bincount(ids, weights=weights, minlength=processor.get_piece_size()).astype(np.int64)


def normalise(lines: Iterable[str]) -> Iterator[str]:
    """Lines normalised by SentencePiece, with its mark in place of spaces and before the first word."""
    normalizer = sentencepiece.SentencePieceNormalizer(rule_name=NORMALIZATION)
    for line in lines:
        yield normalizer.normalize(line)


# The first piece of every model is the unknown token; sizes do not count it.
UNKNOWN, UNKNOWN_PIECE = 1, "<unk>"
_SEED_MASS = 1e9
_BYTES_A_CHARACTER = 4  # at most, in UTF-8


def bpe_pieces(words: Mapping[str, int], size: int) -> bytes:
    """A BPE model of at most `size` pieces, learnt on word types; equal to one learnt on sentences."""
    return _train(_lines_by_count(words), "bpe", size, input_format="tsv")


def unigram_pieces(lines: Iterable[str], size: int) -> bytes:
    """A unigram model of at most `size` pieces, from normalised lines."""
    return finished(_train((line.replace(SPACE_MARK, " ") for line in lines), "unigram", size))


def seeded_unigram_pieces(words: Mapping[str, int], size: int, seed: bytes) -> bytes:
    """A unigram model whose EM is initialised with the pieces of a larger model and their probabilities."""
    with tempfile.TemporaryDirectory(prefix="subgraft-") as folder:
        seeds = Path(folder) / "seeds.tsv"
        pieces = ordinary_pieces(seed).items()
        # SentencePiece reads counts; their scale cancels.
        lines = (f"{piece}\t{max(1, round(math.exp(score) * _SEED_MASS))}\n" for piece, score in pieces)
        seeds.write_text("".join(lines), encoding="utf-8")
        text = (f"{word}\t{count}" for word, count in words.items())
        model = _train(text, "unigram", size, input_format="tsv", seed_sentencepieces_file=str(seeds))
        return finished(model)


def _lines_by_count(words: Mapping[str, int]) -> Iterator[str]:
    """SentencePiece's lines of text and count. Words of equal count share long lines, because each line costs time."""
    words_by_count = defaultdict[int, list[str]](list)
    for word, count in words.items():
        words_by_count[count].append(word)
    words_per_line = max(1, LONGEST_LINE // (_BYTES_A_CHARACTER * (1 + max(map(len, words)))) - 1)
    for count, group in words_by_count.items():
        for start in range(0, len(group), words_per_line):
            yield f"{' '.join(group[start : start + words_per_line])}\t{count}"


def _train(text: Iterable[str], kind: Literal["unigram", "bpe"], size: int, **settings: Any) -> bytes:
    try:
        return train(
            iter(text),
            model_type=kind,
            vocab_size=size + UNKNOWN,
            hard_vocab_limit=False,
            character_coverage=1.0,
            normalization_rule_name="identity",
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            **settings,
        )
    except RuntimeError as error:
        if smallest := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            raise too_small(size, int(smallest[1]) - UNKNOWN) from None
        raise OperationalError(f"SentencePiece could not learn these pieces: {error}") from error
