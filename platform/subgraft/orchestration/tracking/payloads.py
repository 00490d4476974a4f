"""The content of runs in MLflow: tags, and for a finished step numbers, texts, small files, curve and datasets."""

from __future__ import annotations

import getpass
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from subgraft.base import json_io
from subgraft.orchestration.store.events import EVENTS, EventTail, Metrics
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.record import RECORD, Record
from subgraft.orchestration.store.step import Step, flatten, sha256_of
from subgraft.orchestration.store.store import Store

# The kind of a system's run under one seed, and the names of its training and test in it.
SYSTEM, TRAINED, TEST = "system", "finetune", "test"
# Prefixes of tags: full fingerprints of a run's own steps, and first digits of the fingerprints of cached steps.
FINGERPRINT, CACHED = "fingerprint", "found"
SHORT_LENGTH = 12
_FINGERPRINTS_PER_TAG = 300


def cached_tags(fingerprints: list[str]) -> dict[str, str]:
    """Tags that list the cached artifacts that a run used, in as few tags as their length allows."""
    short = [fingerprint[:SHORT_LENGTH] for fingerprint in fingerprints]
    parts = [short[start : start + _FINGERPRINTS_PER_TAG] for start in range(0, len(short), _FINGERPRINTS_PER_TAG)]
    return {f"{CACHED}.{number}": " ".join(part) for number, part in enumerate(parts, 1)}


def fingerprints_in(tags: Mapping[str, str]) -> Iterator[str]:
    """The abbreviated fingerprints of all artifacts that a run made or used."""
    for name, value in tags.items():
        head, _, _ = name.partition(".")
        if head in (FINGERPRINT, CACHED):
            yield from (fingerprint[:SHORT_LENGTH] for fingerprint in value.split())


def source_tags(provenance: Provenance) -> Mapping[str, str]:
    """The origin of a run, as MLflow's page shows it: command, commit and user; an unknown commit is omitted.

    The commit is that of the checkout with the package; `mlflow.source.git.dirty` says whether it had changes.
    """
    commit = provenance.git_commit or ""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        user = ""
    tags = {
        "mlflow.source.name": " ".join(["subgraft", *provenance.argv[1:]]),
        "mlflow.source.type": "LOCAL",
        "mlflow.user": user,
        "git_commit": commit,
    }
    if commit:
        tags["mlflow.source.git.commit"] = commit.removesuffix("+")
        tags["mlflow.source.git.dirty"] = str(commit.endswith("+")).lower()
    return tags


ARTIFACTS = "artifacts"
CURVE = "curve.json"
# A point of a curve: its name, its value, when it was measured (milliseconds since the epoch), and the training step.
Point: TypeAlias = tuple[str, float, int, int]
_INVALID_CHARACTERS = re.compile(r"[^\w\-. :/]")


@dataclass(frozen=True, slots=True)
class StepPayload:
    """The numbers of a step's summary with its seconds, its texts with device and digest, and its small files."""

    numbers: dict[str, float]
    texts: dict[str, str]
    files: list[str]

    @classmethod
    def of(cls, record: Record) -> StepPayload:
        summary = dict(record.summary)
        files = [RECORD, *(str(name) for name in summary.pop(ARTIFACTS, ()))]
        flat = flatten(summary)
        numbers = {name: float(value) for name, value in flat.items() if isinstance(value, int | float)}
        texts = {name: str(value) for name, value in flat.items() if name not in numbers}
        provenance = {"device": record.provenance.device, "digest": record.digest}
        return cls({**numbers, "seconds": record.seconds}, provenance | texts, files)


def scores_in(record: Record) -> dict[str, float]:
    """The scores among the numbers of an evaluation: those with a signature, or all if none has one."""
    numbers, signatures = StepPayload.of(record).numbers, record.summary.get("signatures")
    if not isinstance(signatures, dict):
        return {name: value for name, value in numbers.items() if name != "seconds"}
    return {name: value for name, value in numbers.items() if name in signatures}


def curve_of(store: Store, step: Step, now: int) -> Iterator[Point]:
    """The curve of a cached training: its events if the work directory exists, else the dev scores of the artifact.

    `now` is the time, in milliseconds, of points without one.
    """
    seen: set[tuple[str, int]] = set()
    for event in EventTail(store.work(step) / EVENTS).read():
        if not isinstance(event, Metrics):
            continue
        for name, value in event.values.items():
            if (name, event.step) not in seen:  # a resumed training repeats the steps after its checkpoint
                seen.add((name, event.step))
                yield name, value, int(event.time * 1000), event.step
    if not seen:
        yield from _dev_scores(store.path(step) / CURVE, now)


def _dev_scores(file: Path, now: int) -> Iterator[Point]:
    try:
        points = json_io.parse(file.read_bytes(), finite=True)
        yield from [
            (f"dev_{name}", float(value), now, int(point["step"]))
            for point in points
            for name, value in point["values"].items()
        ]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return


def milliseconds_now() -> int:
    """The time in milliseconds since the epoch, as MLflow has it."""
    return int(time.time() * 1000)


def to_metric_name(text: str) -> str:
    """The text as part of a metric's name, without the characters that MLflow refuses."""
    return _INVALID_CHARACTERS.sub("_", text)


def table(systems: dict[str, dict[str, float]]) -> str:
    """Figures by system and name as a table in Markdown, which MLflow shows as the description of a run."""
    names = list(dict.fromkeys(name for figures in systems.values() for name in figures))
    lines = [f"| system | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for system, figures in systems.items():
        cells = (f"{figures[name]:.2f}" if name in figures else "" for name in names)
        lines.append(f"| {system} | {' | '.join(cells)} |")
    return "\n".join(lines)


# The corpora of a run as MLflow's datasets: name, size and digest, without the text. By the digest MLflow finds the
# runs that read the same text.
CORPUS = "corpus"
CONTEXTS = {"train": "training", "dev": "validation", "test": "test"}
DIGEST_LENGTH = 32  # MLflow takes 36 characters at most


def describe_datasets(record: Record, directory: Path) -> list[Mapping[str, str]]:
    """The splits of a corpus as MLflow datasets."""
    sizes = record.summary.get("sizes")
    datasets = list[Mapping[str, str]]()
    for split, context in CONTEXTS.items():
        if not (isinstance(sizes, Mapping) and sizes.get(split)):
            continue
        files = [entry for entry in record.files if entry.path.startswith(f"{split}.")]
        columns = [{"type": "string", "name": entry.path.split(".", 1)[1], "required": True} for entry in files]
        datasets.append(
            {
                "name": f"{record.name.removeprefix(f'{CORPUS} ')}/{split}",
                "digest": sha256_of([[entry.path, entry.sha256] for entry in files])[:DIGEST_LENGTH],
                "source": json.dumps({"uri": str(directory)}),
                "schema": json.dumps({"mlflow_colspec": columns}),
                "profile": json.dumps({"num_rows": sizes[split]}),
                "context": context,
            }
        )
    return datasets
