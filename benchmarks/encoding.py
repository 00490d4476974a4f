"""Lines cut into subwords per second of CPU: by tokenizers, by SentencePiece, and as a corpus is encoded here.

    python benchmarks/encoding.py [--lines N] [--size V]

The text is real (SUBGRAFT_DATA, or ../shared/data beside the repository), the vocabulary learnt on half of it. Last,
what every later reader of the encoded text pays: opening files that others have made.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import sentencepiece

from subgraft.text import reading
from subgraft.text.encoded import encode
from subgraft.text.segments import Text
from subgraft.vocabulary.learn import learn

TEXTS = ("en-fr/tatoeba/train.fr.gz", "en-fr/laws/train.fr.gz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lines", type=int, default=40_000)
    parser.add_argument("--size", type=int, default=8000)
    arguments = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = "1"
    data = Path(os.environ.get("SUBGRAFT_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    texts = [list(islice(reading.lines(data / text), arguments.lines // len(TEXTS))) for text in TEXTS]
    lines = [line for text in texts for line in text]
    tokenizer = learn(lines[::2], kind="unigram", size=arguments.size)
    model = tokenizer.sentencepiece_model
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    with tempfile.TemporaryDirectory() as place, Path(place, "plain.txt").open("w", encoding="utf-8") as plain:
        plain.writelines(f"{line}\n" for line in lines)
        plain.flush()
        text = Text(Path(plain.name), cache=Path(place, "encoded"))
        by_tokenizers = told("tokenizers", lambda: tokenizer._by_tokenizers(lines), len(lines))
        told("SentencePiece", lambda: processor.encode(lines, num_threads=1), len(lines), by_tokenizers)
        told("Tokenizer.encode_batch", lambda: tokenizer.encode_batch(lines), len(lines), by_tokenizers)
        told("encoded into files", lambda: encode(text, tokenizer), len(lines), by_tokenizers)
        told("opened again", lambda: encode(text, tokenizer), len(lines), by_tokenizers)
    same = tokenizer.encode_batch(lines) == tokenizer._by_tokenizers(lines) == processor.encode(lines)
    print(f"the ids of all {len(lines):,} lines are {'the same' if same else 'NOT the same'}")


def told(name: str, work: Callable[[], Any], lines: int, beside: float | None = None) -> float:
    """CPU seconds of a piece of work, which are printed beside those of another."""
    began = time.process_time()
    work()
    seconds = time.process_time() - began
    ratio = f", {beside / seconds:6.1f} × tokenizers" if beside else ""
    print(f"{name:24} {seconds:7.2f} s of CPU, {lines / seconds:10,.0f} lines a second{ratio}", flush=True)
    return seconds


if __name__ == "__main__":
    main()
