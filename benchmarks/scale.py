"""What grows with a corpus: time and memory of cleaning, encoding, planning and reading it, over a decade of sizes.

    python benchmarks/scale.py [--pairs 100000 1000000] [--limit MIB] [--folder DIR]

The corpus is synthetic: words by Zipf's law, every twentieth pair a duplicate. Each piece of work has a process of its
own. Memory is what the process had at most of its own (RssAnon), above what it had before the work: pages of mapped
files are the machine's, which takes them back. With --limit, the epoch is read by a process that may have so much
memory of its own in all (RLIMIT_DATA), whatever the corpus takes.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np

from measurements import Measurements, measurements, options
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.batches import BatchFiles, BatchPlan
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.encoded import Encoded, encode
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

WORDS, LEARNT_FROM, PIECES, BATCH_TOKENS = 50_000, 20_000, 4000, 8192
QUICK = (20_000, 200_000)
LANGUAGES = Languages(source="en", target="fr")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--limit", type=int, help="MiB that a process which reads an epoch may have")
    parser.add_argument("--folder", type=Path, help="where the corpora lie while it runs; default: a temporary one")
    parser.add_argument("--work", choices=WORK, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        measure(WORK[arguments.work], arguments.folder, arguments.limit)
        return
    with measurements(__doc__, arguments) as table:
        for pairs in QUICK if arguments.quick else arguments.pairs:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
                place = Path(made)
                write_corpus(place, pairs)
                for work in WORK:
                    record(table, work, place, pairs, arguments.limit if work == "epoch" else None)


def record(table: Measurements, work: str, place: Path, pairs: int, limit: int | None) -> None:
    """One piece of work in a process of its own, and its figures."""
    command = [sys.executable, __file__, "--work", work, "--folder", str(place)]
    command += ["--limit", str(limit)] if limit else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result = json.loads(done.stdout.splitlines()[-1])
    seconds, memory = result["seconds"], result["memory"]
    table.add(
        f"{pairs:,} pairs: {work}",
        CPU_seconds=seconds,
        of_a_million=seconds * 1e6 / pairs,
        MiB_at_most=memory / 2**20,
        bytes_a_pair=memory / pairs,
        note=result["note"],
    )


def write_corpus(place: Path, pairs: int) -> None:
    """train, dev and test in two languages, and a vocabulary."""
    rng = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    words = ["".join(rng.choice(letters[: 8 + at % 18], size=2 + at % 9)) for at in range(WORDS)]
    for split, count in (("train", pairs), ("dev", 500), ("test", 500)):
        with (place / f"{split}.en").open("w") as source, (place / f"{split}.fr").open("w") as target:
            for start in range(0, count, 10_000):
                lines = _lines(rng, words, min(10_000, count - start))
                lines[19::20] = lines[::20][: len(lines[19::20])]
                source.writelines(f"{line}\n" for line in lines)
                target.writelines(f"{' '.join(reversed(line.split()))}\n" for line in lines)
    with (place / "train.en").open() as text:
        learnt = learn(islice((line.rstrip("\n") for line in text), LEARNT_FROM), kind="unigram", size=PIECES)
    (place / "vocabulary").mkdir()
    learnt.save(place / "vocabulary")


def _lines(rng: np.random.Generator, words: list[str], count: int) -> list[str]:
    lengths = np.maximum(1, rng.lognormal(2.4, 0.6, size=count).astype(np.int64))
    drawn = np.minimum(rng.zipf(1.3, size=int(lengths.sum())), WORDS) - 1
    ends = np.cumsum(lengths)
    return [" ".join(words[at] for at in drawn[end - size : end]) for end, size in zip(ends, lengths, strict=True)]


def clean(place: Path) -> str:
    made = build(CorpusSource(folder=str(place)), LANGUAGES, Cleaning(), place / "corpus")
    counts = made.counts["train"]
    return f"{counts['kept']:,} kept, {counts['duplicate']:,} duplicates"


def encoded(place: Path) -> tuple[Encoded, Encoded]:
    corpus = Corpus.open(place / "corpus", place / "encoded")
    vocabulary = Tokenizer.load(place / "vocabulary")
    return encode(corpus.text("train", "source"), vocabulary), encode(corpus.text("train", "target"), vocabulary)


def encoding(place: Path) -> str:
    encoded(place)
    size = sum(path.stat().st_size for path in (place / "encoded").rglob("*.bin"))
    return f"{size / 2**20:,.0f} MiB of files"


def opening(place: Path) -> str:
    encoded(place)
    return "files that are there"


def lines(place: Path) -> str:
    """By the first process that reads a text, and by all others."""
    text = Corpus.open(place / "corpus", place / "encoded").text("train", "source")
    read = [text[at] for at in range(0, len(text), 1000)]
    return f"{len(read):,} read by number"


def planning(place: Path) -> str:
    return f"{len(_plan(*encoded(place)).epoch(0)):,} batches"


def planning_in_files(place: Path) -> str:
    """By the first process that reads an epoch, and by all others."""
    plan = _plan(*encoded(place))
    batches = BatchFiles(place / "batches", min_examples=1).epoch(plan, 0)
    size = sum(path.stat().st_size for path in (place / "batches").rglob("*.bin"))
    return f"{len(batches):,} batches, {size / len(plan.lengths):.1f} bytes of files a pair"


def epoch(place: Path) -> str:
    source, target = encoded(place)
    tokens = 0
    for batch in _plan(source, target).epoch(0):
        tokens += sum(len(side.sequences[index]) for side in (source, target) for index in batch.tolist())
    return f"{tokens:,} tokens read"


def _plan(source: Encoded, target: Encoded) -> BatchPlan:
    return BatchPlan(source.sequences.longer(target.sequences), BATCH_TOKENS, seed=1)


WORK: dict[str, Callable[[Path], str]] = {
    "clean": clean,
    "encode": encoding,
    "open": opening,
    "lines by number": lines,
    "the same again": lines,
    "plan": planning,
    "plan in files": planning_in_files,
    "find the plan": planning_in_files,
    "epoch": epoch,
}


def measure(work: Callable[[Path], str], place: Path, limit: int | None) -> None:
    """Print CPU seconds, the most memory above that of before, and what the work says, as JSON."""
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit << 20, limit << 20))
    before, most, done = own_memory(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            most[0] = max(most[0], own_memory())

    watching = threading.Thread(target=watch)
    watching.start()
    began = time.process_time()
    note = work(place)
    seconds = time.process_time() - began
    done.set()
    watching.join()
    print(json.dumps({"seconds": seconds, "memory": max(most[0] - before, 0), "note": note}))


def own_memory() -> int:
    """Bytes that this process has of its own, files apart."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("RssAnon:")[1].split()[0]) * 1024


if __name__ == "__main__":
    main()
