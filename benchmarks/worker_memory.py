"""Memory of a worker that trains in bf16 on a CPU, with and without the bounds that runs set for their workers.

    python benchmarks/worker_memory.py [--batches 100]
    python benchmarks/worker_memory.py --text

Each batch has another shape, as batches of sentences do. Every setting is measured in a process of its own.
--text: instead, what the examples of English-French tatoeba take of a worker: as lists of their text, encoded by a
first worker, and by any other. Memory is a process's own: mapped files are shared.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import torch

from measurements import measurements, options, real_text
from subgraft.config.corpora import Cleaning
from subgraft.config.experiment.presets import preset
from subgraft.config.training import TrainingSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.paths import data_folder
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.batches import BatchPlan
from subgraft.data.text.corpus import Corpus
from subgraft.modeling.families import SequenceFormat
from subgraft.orchestration.execution.cluster import ENVIRONMENT
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.engine import PlainEngine
from subgraft.training.objectives.compute.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.training.objectives.compute.translation import Translation
from tatoeba import LANGUAGES, small_model

CACHES = ("LRU_CACHE_CAPACITY", "ONEDNN_PRIMITIVE_CACHE_CAPACITY")
UNBOUNDED = {name: value for name, value in ENVIRONMENT.items() if name not in CACHES}
QUICK = 30
SETTINGS = {"as runs set them": ENVIRONMENT, "primitive caches unbounded": UNBOUNDED}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.alone:
        _train(args.batches)
        return
    if args.text:
        _compare_text()
        return
    real_text()
    batches = QUICK if args.quick else args.batches
    with measurements(__doc__, args) as table:
        for name, environment in SETTINGS.items():
            command = [sys.executable, str(Path(__file__)), "--alone", "--batches", str(batches)]
            inherited = {key: value for key, value in os.environ.items() if key not in CACHES}
            done = subprocess.run(command, env=inherited | environment, check=True, capture_output=True, text=True)
            after = {f"GiB_after_{number}": peak for number, peak in json.loads(done.stdout.splitlines()[-1]).items()}
            table.add(name, **after)


def _train(batches: int) -> None:
    bundle, examples = small_model(40000)
    settings = TrainingSettings(**preset("small")["pretrain"])
    data, module = Seq2SeqData(examples, *bundle.padding), Seq2SeqLoss(bundle.model, 0.1)
    engine = PlainEngine(module, settings, torch.device("cpu"))
    module.train()
    peaks: dict[int, float] = {}
    for number, indices in enumerate(BatchPlan(data.lengths, settings.batch_size, seed=1).epoch(0)[:batches], 1):
        batch = data.batch(indices, epoch=0)
        engine.accumulate(batch, {"loss": 1 / batch.counts["loss"]}, last=True)
        engine.step(1e-4)
        if number in (10, batches):
            peaks[number] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps(peaks))


def _compare_text() -> None:
    folder = data_folder()
    assert folder is not None, "set SUBGRAFT_DATA to a folder that holds en-fr/tatoeba"
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        build(CorpusSource(folder="en-fr/tatoeba"), LANGUAGES, Cleaning(), home / "corpus", base=folder)
        corpus = Corpus.open(home / "corpus")
        for side in ("source", "target"):
            learn(corpus.lines("train", side), kind="unigram", size=6000, max_lines=40_000).save(home / side)
        for name, way in (("as lists", "lists"), ("encoded, the first", "cache"), ("encoded, any other", "cache")):
            process = get_context("spawn").Process(target=_hold, args=(name, way, home))
            process.start()
            process.join()


def _hold(name: str, way: str, home: Path) -> None:
    corpus = Corpus.open(home / "corpus", home / "encoded")
    source, target = (Tokenizer.load(home / side) for side in ("source", "target"))
    form = SequenceFormat(start=0, source_ending=(1,), target_ending=(1,))
    before, begun = _own_memory(), time.perf_counter()
    pairs = list(corpus.pairs("train")) if way == "lists" else corpus.text_pairs("train")
    examples = Translation(pairs, source, target, form, 512, "characters")
    seconds, size = time.perf_counter() - begun, len(examples)
    for index in range(0, size, 7):
        examples.example(index, epoch=0)
    held, peak = _own_memory() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    summary = f"{held / 2**20:.1f} MiB held, {held / size:,.0f} bytes a pair, {seconds:.1f} s, peak {peak:,.0f} MiB"
    print(f"{name}: {size:,} pairs, {summary}", flush=True)


def _own_memory() -> int:
    """Bytes that only this process has, and that are not a copy of a file (Linux)."""
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    return 1024 * sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_Dirty"))


if __name__ == "__main__":
    main()
