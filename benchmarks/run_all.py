"""All benchmarks that two cores answer within half an hour, one after the other, each into its own JSON.

    make bench
    python benchmarks/run_all.py [--out FOLDER] [--only NAME ...] [--limit SECONDS]

What needs something that is not there (real text, packages of others) says so and is left out. The last table is of
CPU seconds, which a busy machine changes least, and of the seconds that went by.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from measurements import CANNOT, measurements

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Benchmark:
    """A file of this folder, what it answers, and how it is called for that."""

    name: str
    answers: str
    options: tuple[str, ...] = ("--quick",)


BENCHMARKS = (
    Benchmark("start_up", "how long until a command answers"),
    Benchmark("encoding", "how fast text becomes subwords"),
    Benchmark("similar", "how fast similar tokens are found"),
    Benchmark("growth", "how costs grow with sizes"),
    Benchmark("scale", "what grows with a corpus"),
    Benchmark("generator_scores", "scores of all rows, or of those used"),
    Benchmark("new_rows", "rows of new tokens, from directories on"),
    Benchmark("attention_influence", "the loss of attention influence"),
    Benchmark("preparation", "what a generator's step spends on data"),
    Benchmark("training_step", "attention and logits of a step"),
    Benchmark("language_model_step", "an update of a decoder, against a bare loop"),
    Benchmark("precision", "fp32 or bf16 on this machine"),
    Benchmark("products", "fp32 by MKL or by oneDNN"),
    Benchmark("large_softmax", "the loss over a large vocabulary"),
    Benchmark("checkpoints", "how long training waits for checkpoints"),
    Benchmark("transfer_memory", "memory of a transfer"),
    Benchmark("worker_memory", "memory of a worker"),
    Benchmark("simulation", "what simulated tokens are like"),
    Benchmark("noise", "what mBART's noise does"),
    Benchmark("peers", "the same work by other packages"),
    Benchmark("donors", "another model's tokenizer, by mergekit and here"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder of the JSON files")
    parser.add_argument("--only", nargs="+", choices=[each.name for each in BENCHMARKS], metavar="NAME")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which one of them is ended")
    args = parser.parse_args()
    chosen = [each for each in BENCHMARKS if not args.only or each.name in args.only]
    args.json, taken = args.out / "run_all.json", {}
    for each in chosen:
        print(f"\n== {each.name}: {each.answers}", flush=True)
        taken[each.name] = _run(each, args.out / f"{each.name}.json", args.limit)
    print("\n== all", flush=True)
    with measurements(__doc__, args) as table:
        for name, (came_to, cpu, seconds) in taken.items():
            table.add(name, came_to=came_to, CPU_seconds=cpu, seconds=seconds)
        sums = [sum(each[place] for each in taken.values()) for place in (1, 2)]  # type: ignore[misc]
        table.add("together", came_to="", CPU_seconds=sums[0], seconds=sums[1])
    if any(came_to == "failed" for came_to, _, _ in taken.values()):
        raise SystemExit(1)


def _run(benchmark: Benchmark, out: Path, limit: float) -> tuple[str, float, float]:
    """What came of it, and its seconds: of the CPU, its children's included, and of the clock."""
    out.unlink(missing_ok=True)
    command = [sys.executable, str(HERE / f"{benchmark.name}.py"), *benchmark.options, "--json", str(out)]
    before, begun = _children(), time.perf_counter()
    try:
        code = subprocess.run(command, check=False, timeout=limit, env=_environment()).returncode
    except subprocess.TimeoutExpired:
        code = None
    came_to = {0: "done", CANNOT: "left out", None: "too long"}.get(code, "failed")
    return came_to, _children() - before, time.perf_counter() - begun


def _environment() -> dict[str, str]:
    """The peers lie in a folder of their own (`make peers`), last in the path: what we have too is ours."""
    path = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(HERE.parent / ".peers"))))
    return {**os.environ, "PYTHONPATH": path, "TQDM_DISABLE": "1"}


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
