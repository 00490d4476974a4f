"""Lines cut into subwords per second of CPU: by tokenizers, by SentencePiece, and as a corpus is encoded here.

    python benchmarks/encoding.py [--lines N] [--size V]

The text is real (SUBGRAFT_DATA, or ../shared/data next to the repository), the vocabulary learnt on half of it. Then
what every later reader of the encoded text pays: opening files that others have made. Last, more of the text on one and
on two threads, in turn, by the clock: that needs two otherwise idle cores.
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
from subgraft.data.text import reading
from subgraft.data.text.encoded import encode
from subgraft.data.text.segments import Text
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

TEXTS = ("en-fr/tatoeba/train.fr.gz", "en-fr/laws/train.fr.gz")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--lines", type=int, default=40_000)
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=3, help="how often one and two threads take turns")
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
        by_tokenizers = measure(table, "tokenizers", lambda: tokenizer._by_tokenizers(lines), len(lines))
        measure(table, "SentencePiece", lambda: processor.encode(lines, num_threads=1), len(lines), by_tokenizers)
        measure(table, "Tokenizer.encode_batch", lambda: tokenizer.encode_batch(lines), len(lines), by_tokenizers)
        measure(table, "encoded into files", lambda: encode(text, tokenizer), len(lines), by_tokenizers)
        measure(table, "opened again", lambda: encode(text, tokenizer), len(lines), by_tokenizers)
        threads_in_turn(table, lines, tokenizer, Path(place), arguments.rounds)
    same = tokenizer.encode_batch(lines) == tokenizer._by_tokenizers(lines) == processor.encode(lines)
    print(f"the ids of all {len(lines):,} lines are {'the same' if same else 'NOT the same'}")


def measure(
    table: Measurements, name: str, work: Callable[[], Any], lines: int, baseline: float | None = None
) -> float:
    """CPU seconds of a piece of work, and their ratio to a baseline's."""
    began = time.process_time()
    work()
    seconds = time.process_time() - began
    rate = (baseline or seconds) / seconds
    table.add(name, CPU_seconds=seconds, lines_a_second=lines / seconds, times_tokenizers=rate)
    return seconds


def threads_in_turn(table: Measurements, lines: list[str], tokenizer: Tokenizer, place: Path, rounds: int) -> None:
    """Seconds by the clock of four times the text, the least of some rounds."""
    (place / "more.txt").write_text("".join(f"{line}\n" for line in 4 * lines), encoding="utf-8")
    seconds = {1: float("inf"), 2: float("inf")}
    for number in range(rounds):
        for threads in seconds:
            os.environ["RAYON_NUM_THREADS"] = str(threads)
            text = Text(place / "more.txt", cache=place / f"encoded-{number}-{threads}")
            begun = time.perf_counter()
            encode(text, tokenizer)
            seconds[threads] = min(seconds[threads], time.perf_counter() - begun)
    for threads, taken in seconds.items():
        table.add(f"into files, threads: {threads}", seconds=taken, of_one=taken / seconds[1])


if __name__ == "__main__":
    main()
