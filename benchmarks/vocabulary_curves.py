"""Curves of ALP from one training a language, and from one a size: ratios of CPU seconds, and how far ALP is off.

    SUBGRAFT_DATA=… python benchmarks/vocabulary_curves.py [--kind bpe|unigram] [--largest 10000]

A size by itself is measured in two ways: by SentencePiece alone, which learns from the lines and cuts them again, and
as `subgraft vocab learn` and `capacity` do it. All in one process, on one thread.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import sentencepiece

from subgraft.contrib.allocation.curve import CurveKind, measure
from subgraft.subwords.vocabulary.capacity import average_log_probability, capacity
from subgraft.subwords.vocabulary.learn import learn

T = TypeVar("T")
LANGUAGES = ("Swahili-NT", "Cherokee-NT", "Gujarati-NT", "Syriac-NT", "Ukranian-NT", "Manx-PART")
HEADINGS = ("text", "sizes", "curve s", "SentencePiece", "ratio", "vocab learn", "ratio", "ALP off by")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and seconds of the CPU."""
    begun = time.process_time()
    result = work()
    return result, time.process_time() - begun


def by_sentencepiece(lines: Sequence[str], kind: CurveKind, size: int) -> float:
    """ALP of a vocabulary of so many ordinary pieces, trained alone."""
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=written,
        model_type=kind,
        vocab_size=size + 1,
        hard_vocab_limit=False,
        character_coverage=1.0,
        num_threads=1,
        minloglevel=2,
        bos_id=-1,
        eos_id=-1,
    )
    model = sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
    counts = Counter(piece for ids in model.encode(list(lines)) for piece in ids)
    return average_log_probability(np.array(list(counts.values())), len(lines))


def by_learning(lines: Sequence[str], kind: CurveKind, size: int) -> float:
    """The same with this package's own vocabularies, with the four special tokens that each has."""
    return capacity(learn(lines, kind=kind, size=size + 4), lines).alp


def row(name: str, lines: Sequence[str], kind: CurveKind, sizes: Sequence[int]) -> tuple[list[str], list[float]]:
    """A line of the table, and the three times."""
    measured, seconds = timed(lambda: measure(lambda: iter(lines), kind, sizes))
    curve = measured.curve
    alone, alone_seconds = timed(lambda: [by_sentencepiece(lines, kind, size) for size in curve.sizes])
    # The largest of a text that reached its limit is one that `learn` counts otherwise: it is left out there.
    within = [size for size in curve.sizes if size != curve.limit]
    _, learn_seconds = timed(lambda: [by_learning(lines, kind, size) for size in within])
    learn_seconds *= len(curve.sizes) / len(within)
    off = max(abs(one / other - 1) for one, other in zip(curve.alp, alone, strict=True))
    shown = [f"{seconds:.2f}", f"{alone_seconds:.2f}", f"{alone_seconds / seconds:.1f}"]
    shown += [f"{learn_seconds:.2f}", f"{learn_seconds / seconds:.1f}", f"{off:.1e}"]
    return [name, f"{len(curve.sizes)} to {curve.sizes[-1]:,}", *shown], [seconds, alone_seconds, learn_seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=("bpe", "unigram"), default="bpe")
    parser.add_argument("--languages", nargs="+", default=LANGUAGES)
    parser.add_argument("--step", type=int, default=1000)
    parser.add_argument("--largest", type=int, default=10_000)
    arguments = parser.parse_args()
    folder = Path(os.environ["SUBGRAFT_DATA"]) / "mono" / "bible-nt"
    sizes = range(arguments.step, arguments.largest + 1, arguments.step)
    print(" | ".join(HEADINGS))
    whole = [0.0, 0.0, 0.0]
    for name in arguments.languages:
        with gzip.open(folder / f"{name}.txt.gz", "rt", encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in file if line.strip()]
        shown, times = row(name, lines, arguments.kind, sizes)
        whole = [one + other for one, other in zip(whole, times, strict=True)]
        print(" | ".join(shown), flush=True)
    curve, alone, learnt = whole
    print(f"all | | {curve:.2f} | {alone:.2f} | {alone / curve:.1f} | {learnt:.2f} | {learnt / curve:.1f} |")


if __name__ == "__main__":
    main()
