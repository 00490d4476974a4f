"""Learn pieces with SentencePiece from normalised text: the requested number, or as many as possible."""

from __future__ import annotations

import io
import math
import re
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import sentencepiece

from subgraft.base.errors import OperationalError
from subgraft.subwords.vocabulary.entry import SPACE_MARK
from subgraft.subwords.vocabulary.learn import LONGEST_LINE
from subgraft.subwords.vocabulary.learning_errors import too_small
from subgraft.subwords.vocabulary.sentencepiece_model import ordinary_pieces, with_rounded_scores

# One piece of every model, its first, stands for what is unknown; sizes are of the others.
UNKNOWN, UNKNOWN_PIECE = 1, "<unk>"
_SEED_MASS = 1e9
_BYTES_A_CHARACTER = 4  # at most, in UTF-8


def bpe_pieces(words: Mapping[str, int], size: int) -> bytes:
    """A BPE model of at most `size` pieces, learnt on word types; equal to one learnt on sentences."""
    return _train(_of_equal_counts(words), "bpe", size, input_format="tsv")


def unigram_pieces(lines: Iterable[str], size: int) -> bytes:
    """A unigram model of at most `size` pieces, from normalised lines."""
    return with_rounded_scores(_train((line.replace(SPACE_MARK, " ") for line in lines), "unigram", size))


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
        return with_rounded_scores(model)


def _of_equal_counts(words: Mapping[str, int]) -> Iterator[str]:
    """SentencePiece's lines of text and count, with few long lines, because a line costs more time than its words."""
    alike = defaultdict[int, list[str]](list)
    for word, count in words.items():
        alike[count].append(word)
    at_once = max(1, LONGEST_LINE // (_BYTES_A_CHARACTER * (1 + max(map(len, words)))) - 1)
    for count, group in alike.items():
        for begin in range(0, len(group), at_once):
            yield f"{' '.join(group[begin : begin + at_once])}\t{count}"


def _train(text: Iterable[str], kind: Literal["unigram", "bpe"], size: int, **settings: Any) -> bytes:
    written = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text),
            model_writer=written,
            model_type=kind,
            vocab_size=size + UNKNOWN,
            hard_vocab_limit=False,
            character_coverage=1.0,
            normalization_rule_name="identity",
            max_sentence_length=LONGEST_LINE,
            num_threads=1,  # the sums of the unigram model depend on how many threads share them
            minloglevel=2,
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
    return written.getvalue()
