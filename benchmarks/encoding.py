"""Lines cut into subwords per second of CPU: by tokenizers, by SentencePiece, and as a corpus is encoded here.

    python benchmarks/encoding.py [--lines N] [--size V]

The text is real (SUBGRAFT_DATA, or ../shared/data beside the repository), the vocabulary learnt on half of it. Last,
what every later reader of the encoded text pays: opening files that others have made.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import sentencepiece

from measurements import Measurements, measurements, options, real_text
from subgraft.text import reading
from subgraft.text.encoded import encode
from subgraft.text.segments import Text
from subgraft.vocabulary.learn import learn

TEXTS = ("en-fr/tatoeba/train.fr.gz", "en-fr/laws/train.fr.gz")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--lines", type=int, default=40_000)
    parser.add_argument("--size", type=int, default=8000)
    arguments = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = "1"
    data, wanted = real_text(), arguments.lines
    texts = [list(islice(reading.lines(data / text), wanted // len(TEXTS))) for text in TEXTS]
    lines = [line for text in texts for line in text]
    tokenizer = learn(lines[::2], kind="unigram", size=arguments.size)
    model = tokenizer.sentencepiece_model
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    with (
        measurements(__doc__, arguments) as table,
        tempfile.TemporaryDirectory() as place,
        Path(place, "plain.txt").open("w", encoding="utf-8") as plain,
    ):
        plain.writelines(f"{line}\n" for line in lines)
        plain.flush()
        text = Text(Path(plain.name), cache=Path(place, "encoded"))
        by_tokenizers = told(table, "tokenizers", lambda: tokenizer._by_tokenizers(lines), len(lines))
        told(table, "SentencePiece", lambda: processor.encode(lines, num_threads=1), len(lines), by_tokenizers)
        told(table, "Tokenizer.encode_batch", lambda: tokenizer.encode_batch(lines), len(lines), by_tokenizers)
        told(table, "encoded into files", lambda: encode(text, tokenizer), len(lines), by_tokenizers)
        told(table, "opened again", lambda: encode(text, tokenizer), len(lines), by_tokenizers)
    same = tokenizer.encode_batch(lines) == tokenizer._by_tokenizers(lines) == processor.encode(lines)
    print(f"the ids of all {len(lines):,} lines are {'the same' if same else 'NOT the same'}")


def told(table: Measurements, name: str, work: Callable[[], Any], lines: int, beside: float | None = None) -> float:
    """CPU seconds of a piece of work, and beside those of another."""
    began = time.process_time()
    work()
    seconds = time.process_time() - began
    rate = (beside or seconds) / seconds
    table.add(name, CPU_seconds=seconds, lines_a_second=lines / seconds, times_tokenizers=rate)
    return seconds


if __name__ == "__main__":
    main()
