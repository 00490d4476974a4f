"""What must be so of a home after a soak: nothing lost, nothing damaged, nothing left, sizes as they should be."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from subgraft.base.errors import SubgraftError
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.garbage_collection import needed_by
from subgraft.experiments.inventory import size_of, work_directories
from subgraft.experiments.pipeline import Pipeline
from subgraft.experiments.search.session import LEDGER, last_trial_steps
from subgraft.experiments.search.trial_results import Ledger
from subgraft.orchestration.store.record import RECORD, Record, verify_artifact
from subgraft.orchestration.store.step import in_order
from subgraft.orchestration.tracking.model_registry import CHAMPION, Registry
from subgraft.orchestration.tracking.server import PARENT, Server

# Files whose bytes follow from their recipes alone: other files of a step contain times.
REPRODUCIBLE = (".safetensors", "tokenizer.json", "hypotheses.txt")
# The rows of a run in the database may take so much more in the second half of a soak than in the first.
MOST_GROWTH = 1.25

Digests = Mapping[str, str]


@dataclass(frozen=True)
class Check:
    """A question to a home. amiss: what answers no, a line each; seen: how many things were looked at."""

    name: str
    seen: int
    amiss: tuple[str, ...]

    @property
    def passed(self) -> bool:
        return not self.amiss

    def __str__(self) -> str:
        details = "; ".join(self.amiss[:3]) + (" …" if len(self.amiss) > 3 else "")
        return f"{'yes' if self.passed else 'NO '}  {self.name} ({self.seen:,})" + (f": {details}" if details else "")


def fingerprints(config: Path, changes: Sequence[str]) -> list[str]:
    """Of every step of an experiment."""
    pipeline = Pipeline(load(config, Experiment, changes), config.parent)
    return [step.fingerprint for step in in_order([pipeline.report])]


def needed(config: Path, runs: Sequence[Sequence[str]], home: Path) -> set[str]:
    """All that a garbage collection leaves that keeps these experiments: their steps, and those of their searches."""
    fingerprints: set[str] = set()
    for changes in runs:
        experiment = load(config, Experiment, changes)
        trials = last_trial_steps(home, experiment, config.parent)
        fingerprints |= needed_by(Pipeline(experiment, config.parent).report, *trials)
    return fingerprints


def reproducible(home: Path, wanted: Sequence[str]) -> dict[str, Digests | None]:
    """Of each artifact, the digests that its recorded files must have whenever it is made; None where there is none."""
    return {fingerprint: _reproducible(home, fingerprint) for fingerprint in wanted}


def _reproducible(home: Path, fingerprint: str) -> Digests | None:
    for path in home.glob(f"store/[!.]*/{fingerprint}/{RECORD}"):
        record = Record.from_json(path.read_text(encoding="utf-8"))
        return {entry.path: entry.sha256 for entry in record.files if entry.path.endswith(REPRODUCIBLE)}
    return None


def database_bytes(home: Path) -> int:
    """Of the record of runs, its journal included."""
    return sum(path.stat().st_size for path in home.glob("mlflow.db*"))


def sizes(home: Path) -> dict[str, int]:
    """Bytes of a home by its parts."""
    parts = {name: size_of(home / name) for name in ("store", "work", "encoded", "mlartifacts", "tracking", "searches")}
    return {**parts, "database": database_bytes(home)}


def check_records(home: Path) -> Check:
    """Every artifact is what its record says, to the byte."""
    directories = sorted(path for path in home.glob("store/[!.]*/*") if path.is_dir())
    return Check("every artifact verifies", len(directories), tuple(_not_verified(directories)))


def _not_verified(directories: Sequence[Path]) -> Iterator[str]:
    for directory in directories:
        try:
            verify_artifact(directory)
        except (OSError, ValueError) as error:
            yield f"{directory.parent.name}/{directory.name[:12]}: {error}"


def check_protected(home: Path, protected: Mapping[str, Sequence[str]]) -> Check:
    """Garbage collections left all that they had to keep. protected: fingerprints by what needs them."""
    lost = [
        f"{name} lacks {fingerprint[:12]}"
        for name, wanted in protected.items()
        for fingerprint in wanted
        if not any(home.glob(f"store/[!.]*/{fingerprint}/{RECORD}"))
    ]
    return Check("nothing that was to be kept is lost", sum(map(len, protected.values())), tuple(lost))


def check_size(home: Path, protected: set[str]) -> Check:
    """Once collected, a store has nothing but the protected artifacts, and takes what its records account for."""
    directories = sorted(path for path in home.glob("store/[!.]*/*") if path.is_dir())
    extra = [f"{path.parent.name}/{path.name[:12]} is not needed" for path in directories if path.name not in protected]
    accounted = sum(path.stat().st_size for path in (home / "store").glob(".*") if path.is_file())  # the format number
    for path in home.glob(f"store/[!.]*/*/{RECORD}"):
        record = Record.from_json(path.read_text(encoding="utf-8"))
        accounted += path.stat().st_size + sum(entry.size for entry in record.files)
    if (taken := size_of(home / "store")) != accounted:
        extra.append(f"it takes {taken:,} bytes, {accounted:,} of them for its artifacts")
    return Check("the store is as large as its protected artifacts", len(directories), tuple(extra))


def check_nothing_left(home: Path) -> Check:
    """No half-written artifact, no claim, no step that was begun and not finished, nothing in quarantine."""
    left = [
        f"{path.relative_to(home)}" for place in ("store/.partial", "quarantine") for path in home.glob(f"{place}/*")
    ]
    left += [f"{path.relative_to(home)}" for path in home.glob("work/*.claim")]
    left += [f"work/{one.fingerprint[:12]} is unfinished" for one in work_directories(home) if not one.finished]
    left += [f"{path.relative_to(home)} was not delivered" for path in home.glob("tracking/*.jsonl")]
    return Check("nothing is left half done", len(left), tuple(left))


def check_tracked(home: Path, finished: int) -> Check:
    """The database is whole, has every run that finished, and none that goes on. finished: the least of them."""
    with closing(sqlite3.connect(f"file:{home / 'mlflow.db'}?mode=ro", uri=True)) as database:
        (whole,) = database.execute("PRAGMA integrity_check").fetchone()
        parents = f"SELECT run_uuid FROM tags WHERE key = '{PARENT}'"
        counted = f"SELECT status, COUNT(*) FROM runs WHERE run_uuid NOT IN ({parents}) GROUP BY status"
        statuses = dict(database.execute(counted).fetchall())
        going = database.execute("SELECT COUNT(*) FROM runs WHERE status = 'RUNNING'").fetchone()[0]
    amiss = [] if whole == "ok" else [f"SQLite says: {whole}"]
    if statuses.get("FINISHED", 0) < finished:
        amiss.append(f"{statuses.get('FINISHED', 0)} runs are recorded as finished, {finished} did")
    if going:
        amiss.append(f"{going} runs are recorded as going on")
    return Check("every run is recorded, and none as going on", sum(statuses.values()), tuple(amiss))


def check_registered(home: Path) -> Check:
    """Every version of every registered model has the files that were registered, and each model one champion."""
    registry, amiss = Registry(Server(home)), list[str]()
    versions = registry.versions()
    for version in versions:
        try:
            registry.resolve(version.uri)
            if registry.evaluation(version) is None:
                amiss.append(f"{version.uri} has no evaluation")
        except SubgraftError as error:
            amiss.append(str(error))
    for model in {version.model for version in versions}:
        champions = sum(CHAMPION in version.aliases for version in versions if version.model == model)
        if champions != 1:
            amiss.append(f"{model} has {champions} champions")
    return Check("every registered model is what was registered", len(versions), tuple(amiss))


def check_searches(home: Path, begun: int) -> Check:
    """Every search that was begun has its trials, none twice and none failed."""
    ledgers = sorted(home.glob(f"searches/*/{LEDGER}"))
    states = {path.parent.name: [trial.state for trial in Ledger(path).trials().values()] for path in ledgers}
    amiss = [f"{name}: {', '.join(status)}" for name, status in states.items() if set(status) != {"finished"}]
    if len(ledgers) != begun:
        amiss.append(f"{begun} searches were begun, {len(ledgers)} are there")
    return Check("every search has all of its trials", len(ledgers), tuple(amiss))


def check_growth(samples: Sequence[tuple[int, int]]) -> Check:
    """The database grows by as much a run at the end as at the beginning. samples: (attempts at runs, bytes)."""
    name = "the database grows evenly"
    if len(samples) < 5 or samples[-1][0] - samples[0][0] < 20:
        return Check(f"{name} (too few runs to tell)", len(samples), ())
    (first, half), middle = _slopes(samples), samples[len(samples) // 2]
    growth = f"{half:,.0f} bytes a run after run {middle[0]}, {first:,.0f} before"
    return Check(name, len(samples), (growth,) if half > MOST_GROWTH * first else ())


def _slopes(samples: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Bytes a run in the first and in the second half."""
    middle = samples[len(samples) // 2]

    def slope(start: tuple[int, int], end: tuple[int, int]) -> float:
        return (end[1] - start[1]) / max(1, end[0] - start[0])

    return slope(samples[0], middle), slope(middle, samples[-1])


def as_json(checks: Sequence[Check]) -> list[dict[str, object]]:
    """For the file of figures."""
    results = [{"check": one.name, "seen": one.seen, "passed": one.passed, "amiss": list(one.amiss)} for one in checks]
    return json.loads(json.dumps(results))  # type: ignore[no-any-return]
