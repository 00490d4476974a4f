"""Many small runs in one home, two at a time, with kills, garbage collections, searches and promotions between.

    python benchmarks/soak.py --out DIR [--runs N] [--hours H] [--seed S] [--parallel N] [--again N]

Every turn runs soak.yaml under seeds of its own, or as a turn before did, until it is done: attempts at it are killed
at random, the whole tree of processes, the driver alone, the stages alone, or by SIGTERM. Then the turn collects
garbage, searches, promotes or lists, while other turns go on. In the end the home is asked whether anything is lost,
damaged or left (soak_checks.py), and some interrupted runs are done again, in a home of their own and in peace: their
weights and translations must be the same to the byte. SIGTERM and Ctrl-C end the turns, not the checks.

DIR/home is the home, DIR/figures.json has the figures so far, DIR/failures/ what a command said that ended badly.
Exit code 1 where a check fails.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import soak_checks as checks
from soak_commands import KILLS, Death, Ended, seconds_until_none, subgraft

CONFIG = Path(__file__).resolve().with_name("soak.yaml")
MODEL = "soak-en-de"
# Of a turn: the share that does what a turn before did, and of an attempt: the share that is killed.
REPEATED, KILLED = 0.25, 0.5
MOST_KILLS, MOST_FAILURES, MOST_EXCUSES = 3, 3, 20
LONGEST_LIFE = 40.0
ERRANDS = {"collect": 5, "search": 2, "promote": 3, "list": 1}
ANCHORS, RECENT = 2, 2
# What ends a command for a reason that is nobody's mistake; and how it is counted.
EXCUSED = {
    "Ray is not available": "machine too busy for Ray",
    "a run is just beginning here": "collection put off",
    "another process is at this search": "search put off",
}
RAY_LINGERS_SECONDS = 120.0


@dataclass(frozen=True)
class Turn:
    """A run and what comes after it, all of which follows from the seed and the turn's number."""

    number: int
    changes: tuple[str, ...]
    deaths: tuple[Death, ...]
    errand: str

    @classmethod
    def drawn(cls, seed: int, number: int) -> Turn:
        chance = Random(f"{seed}/{number}")
        repeated = number > 1 and chance.random() < REPEATED
        as_turn = chance.randrange(max(1, number - 3), number) if repeated else number
        deaths: list[Death] = []
        while len(deaths) < MOST_KILLS and chance.random() < KILLED:
            deaths.append(Death(chance.choice(sorted(KILLS)), chance.uniform(0.5, LONGEST_LIFE)))
        (errand,) = chance.choices(list(ERRANDS), list(ERRANDS.values()))
        return cls(number, _changes(seed, as_turn), tuple(deaths), errand)


def _changes(seed: int, number: int) -> tuple[str, ...]:
    """What sets a turn's run apart from all others: everything after the corpora is made again."""
    pairs = Random(f"{seed}/{number}/pairs").choice((300, 400))
    return f"upstream.seed={number}", f"seeds=[{number}]", f"corpora.law.limit.train={pairs}"


def _excuse(ended: Ended) -> str | None:
    """Why a command could not do its work, if that is expected."""
    return next((reason for said, reason in EXCUSED.items() if said in ended.said), None)


@dataclass
class Soak:
    """What has been done and found so far; turns are in threads of their own."""

    out: Path
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    amiss: list[str] = field(default_factory=list)
    done: list[tuple[str, ...]] = field(default_factory=list)
    interrupted: dict[tuple[str, ...], None] = field(default_factory=dict)
    searched: set[tuple[str, ...]] = field(default_factory=set)
    made: dict[str, checks.Digests] = field(default_factory=dict)
    samples: list[dict[str, int]] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def home(self) -> Path:
        return self.out / "home"

    def turn(self, turn: Turn) -> None:
        """A run to its end, through its deaths, and an errand."""
        if self._run(turn):
            self._compare(turn)
            getattr(self, f"_{turn.errand}")(turn)
        with self.lock:
            self.counts["turns"] += 1
            self.samples.append({"attempts": self.counts["attempts"], **checks.sizes(self.home)})
            self.write()
            minutes = (time.monotonic() - self.started) / 60
            print(f"{minutes:6.1f} min  turn {turn.number} done; {dict(sorted(self.counts.items()))}", flush=True)

    def _run(self, turn: Turn) -> bool:
        deaths, failures, excuses = list(turn.deaths), 0, 0
        while failures < MOST_FAILURES and excuses < MOST_EXCUSES:
            death = deaths.pop(0) if deaths else None
            ended = self._command(f"turn-{turn.number}", "run", str(CONFIG), *turn.changes, death=death)
            self.counts["attempts"] += 1
            if ended.killed and death:
                self.counts[f"killed: {death.how}"] += 1
                self.interrupted[turn.changes] = None
            elif ended.code == 0:
                with self.lock:
                    self.seconds.append(ended.seconds)
                    self.done.append(turn.changes)
                return True
            elif _excuse(ended):
                excuses += 1
            else:
                failures += 1
        self._wrong(f"turn {turn.number} was given up")
        return False

    def _command(self, what: str, *words: str, death: Death | None = None, fine: Sequence[int] = (0,)) -> Ended:
        """Any command of a turn; what ends in another way than it should is written down."""
        ended = subgraft(self.home, *words, death=death)
        with self.lock:
            if ended.hung:
                self._wrong(f"{what}: hung", ended)
            if "Traceback (most recent call last)" in ended.said:
                self._wrong(f"{what}: a traceback", ended)
            if not ended.killed and not ended.hung and ended.code not in fine:
                if excuse := _excuse(ended):
                    self.counts[excuse] += 1
                else:
                    self._wrong(f"{what}: exit code {ended.code}", ended)
        return ended

    def _wrong(self, message: str, ended: Ended | None = None) -> None:
        with self.lock:
            self.amiss.append(message)
            print(f"AMISS  {message}", flush=True)
            if ended:
                place = self.out / "failures"
                place.mkdir(exist_ok=True)
                (place / f"{len(self.amiss)}.txt").write_text(f"{message}\n\n{ended.said}", encoding="utf-8")

    def _compare(self, turn: Turn) -> None:
        """Artifacts that were made again must be equal; what a collection has taken meanwhile cannot be looked at."""
        check = checks.reproducible(self.home, checks.fingerprints(CONFIG, turn.changes))
        with self.lock:
            for fingerprint, digests in check.items():
                if digests is None:
                    self.counts["artifacts collected before they were looked at"] += 1
                elif self.made.setdefault(fingerprint, digests) != digests:
                    self._wrong(f"turn {turn.number}: {fingerprint[:12]} has other bytes than when it was made before")
                else:
                    self.counts["artifacts looked at"] += 1

    def protected(self) -> list[tuple[str, ...]]:
        """Runs that garbage collections must keep: the first ones always, and the last ones."""
        with self.lock:
            done = list(dict.fromkeys(self.done))
        return list(dict.fromkeys([*done[:ANCHORS], *done[-RECENT:]]))

    def _collect(self, turn: Turn) -> None:
        protected = self.protected()
        if len(protected) < ANCHORS:  # they last only if a collection had to keep them
            return
        self._command(
            "collection",
            "store",
            "gc",
            "--apply",
            *(word for each in protected for word in ("--keep", str(CONFIG), *each)),
        )
        self.counts["collections"] += 1
        lost = checks.check_protected(
            self.home, {str(one): checks.fingerprints(CONFIG, one) for one in protected[:ANCHORS]}
        )
        if not lost.passed:
            self._wrong(f"after turn {turn.number}: {lost}")

    def _search(self, turn: Turn) -> None:
        with self.lock:
            self.searched.add(turn.changes)
        death = Death("whole tree", 10 + turn.number % 20) if turn.number % 2 else None
        for one in (death, None) if death else (None,):
            ended = self._command("search", "search", str(CONFIG), *turn.changes, death=one)
            self.counts["searches killed" if ended.killed else "searches"] += 1

    def _promote(self, turn: Turn) -> None:
        ended = self._command("promotion", "models", "promote", MODEL, "--samples", "100", fine=(0, 1))
        promoted = any(words in ended.said for words in ("becomes the champion", "is the champion now"))
        self.counts["promoted" if promoted else "not promoted"] += 1

    def _list(self, turn: Turn) -> None:
        self._command("list", "store", "list")
        self._command("list", "models", "list")
        self.counts["lists"] += 1

    def finish(self, again: int) -> list[checks.Check]:
        """Bring the home to rest, and ask it everything."""
        waited, left = seconds_until_none(self.home, RAY_LINGERS_SECONDS)
        protected = self.protected()
        for each in dict.fromkeys([*protected, *sorted(self.searched)]):
            ended = self._command("at rest", "run", str(CONFIG), *each)
            if each in protected[:ANCHORS] and "[started]" in ended.said:
                self._wrong("at rest: something of the first runs had to be made again", ended)
        for each in sorted(self.searched):
            self._command("at rest", "search", str(CONFIG), *each)
        self._collect(Turn(0, (), (), ""))
        print("in peace, again:", flush=True)
        self._again(list(self.interrupted)[:again])
        wanted = {str(one): checks.fingerprints(CONFIG, one) for one in protected}
        waited_again, left_again = seconds_until_none(self.home, RAY_LINGERS_SECONDS)
        longest = max(waited, waited_again)
        growth = [(sample["attempts"], sample["database"]) for sample in self.samples]
        results = [
            checks.Check("nothing went wrong on the way", self.counts["attempts"], tuple(self.amiss)),
            checks.check_protected(self.home, wanted),
            checks.check_records(self.home),
            checks.check_size(self.home, checks.needed(CONFIG, protected, self.home)),
            checks.check_nothing_left(self.home),
            checks.check_tracked(self.home, len(self.seconds)),
            checks.check_growth(growth),
            checks.check_registered(self.home),
            checks.check_searches(self.home, len(self.searched)),
            checks.Check(f"no process is left (the last was gone after {longest:.0f} s)", 0, (*left, *left_again)),
        ]
        self.write(results)
        return results

    def _again(self, chosen: Sequence[tuple[str, ...]]) -> None:
        home = self.out / "again"
        for changes in chosen:
            ended = subgraft(home, "run", str(CONFIG), *changes)
            results = checks.reproducible(home, checks.fingerprints(CONFIG, changes)) if ended.code == 0 else {}
            same = [self.made[one] == digests for one, digests in results.items() if one in self.made]
            self.counts["artifacts of interrupted runs compared with an uninterrupted one's"] += len(same)
            if ended.code or not all(same):
                self._wrong(f"an uninterrupted run of {changes} ended otherwise", ended)
        shutil.rmtree(home, ignore_errors=True)

    def write(self, results: Sequence[checks.Check] = ()) -> None:
        """The figures so far."""
        ordered = sorted(self.seconds)
        thinned = self.samples[:: max(1, len(self.samples) // 20)]
        figures = {
            "seed": self.seed,
            "minutes": round((time.monotonic() - self.started) / 60, 1),
            "counts": dict(sorted(self.counts.items())),
            "median_seconds_of_a_run": round(ordered[len(ordered) // 2], 1) if ordered else None,
            "interrupted_runs": len(self.interrupted),
            "artifacts_made": len(self.made),
            "bytes": [*thinned, *self.samples[-1:]],
            "bytes_at_rest": checks.sizes(self.home),
            "amiss": self.amiss,
            "checks": checks.as_json(results),
        }
        temporary = self.out / "figures.json.tmp"
        temporary.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        temporary.replace(self.out / "figures.json")


def soak(out: Path, runs: int, hours: float, seed: int, parallel: int, again: int) -> list[checks.Check]:
    """Turns until there were so many, or time is up; then the checks."""
    out.mkdir(parents=True, exist_ok=True)
    state, ending = Soak(out.absolute(), seed), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())

    def one(number: int) -> None:
        if not ending.is_set() and time.monotonic() - state.started < hours * 3600:
            state.turn(Turn.drawn(seed, number))

    with ThreadPoolExecutor(parallel) as pool:
        for finished in [pool.submit(one, number) for number in range(1, runs + 1)]:
            finished.result()
    return state.finish(again)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="absent or empty")
    parser.add_argument("--runs", type=int, default=200, help="default: 200")
    parser.add_argument("--hours", type=float, default=3.0, help="no turn begins after these (default 3)")
    parser.add_argument("--seed", type=int, default=1, help="of runs, kills and errands (default 1)")
    parser.add_argument("--parallel", type=int, default=2, help="turns at a time (default 2)")
    parser.add_argument("--again", type=int, default=8, help="interrupted runs to be done again in peace (default 8)")
    args = parser.parse_args(arguments)
    if args.out.exists() and any(args.out.iterdir()):
        parser.error(f"{args.out} is not empty")
    results = soak(args.out, args.runs, args.hours, args.seed, args.parallel, args.again)
    print("\n".join(map(str, results)), flush=True)
    return 0 if all(check.passed for check in results) else 1


if __name__ == "__main__":
    sys.exit(main())
