"""The tracking server: the only file that imports MLflow. Registry and delivery speak through it.

By default both are an SQLite file, <home>/mlflow.db, with artifacts under <home>/mlartifacts. Models are plain
directories (safetensors and JSON): nothing in the registry is unpickled or loaded as pyfunc.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from subgraft.errors import OperationalError, UserError
from subgraft.locks import Lock
from subgraft.tracking.database import make_or_check
from subgraft.tracking.moved import settle

if TYPE_CHECKING:
    from mlflow.entities import Run

BATCH = {"metrics": 1000, "params": 100, "tags": 100}  # MLflow's limits for one request
LONGEST_VALUE = 5000
PARENT = "mlflow.parentRunId"
KEY = "subgraft.key"  # a tag that no two runs share, by which one is found whose beginning was not answered
SQLITE = "sqlite:///"
ARTIFACTS = "mlartifacts"
REFUSALS = ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "BAD_REQUEST", "PERMISSION_DENIED", "INVALID_STATE")
NO_ANSWER = "API request to "  # how MLflow's client begins what it says of such
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # what it raises is told, and needs no traceback of its own
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # of every run that ends, with the server's password
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a run that is begun twice is two: delivery looks first (`Server.start`)
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven processes that serve its other features
}


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A run as the server has it; metrics are each curve's last value."""

    id: str
    name: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]


def tracking_uri(home: Path, uri: str | None = None) -> str:
    """The setting, or MLFLOW_TRACKING_URI, or the SQLite file under home."""
    return uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home.absolute() / 'mlflow.db'}"


class Server:
    """A connection. Making it imports MLflow, and creates the SQLite file's tables where they are absent.

    Raises OperationalError where a file or a server cannot be used, UserError where a file is another program's.
    """

    def __init__(self, home: Path, uri: str | None = None) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient

        self.home = home.absolute()
        self.home.mkdir(parents=True, exist_ok=True)
        self.uri = tracking_uri(self.home, uri)
        self._experiments: dict[str, str] = {}
        database = Path(self.uri.removeprefix(SQLITE)) if self.is_file else None
        with self.answering(), self.alone():
            if database is not None:
                make_or_check(database)
            self.client = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
            if database is not None and database == self.home / database.name:
                settle(database, self.home / ARTIFACTS)

    @property
    def is_file(self) -> bool:
        """Whether it is an SQLite file, and no server that looks after its database."""
        return self.uri.startswith(SQLITE)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """What is done inside, no other process does at that time, where they share an SQLite file."""
        if not self.is_file:
            yield
            return
        with Lock.wait(Path(f"{self.uri.removeprefix(SQLITE)}.claim"), "is at the same database", seconds=0.05):
            yield

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """What is asked inside must be answered: OperationalError where the server is away or broken."""
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (MlflowException, SQLAlchemyError) as error:
            said = str(error).strip().splitlines()[0].split(". ")[0]
            if self.is_file:
                hint = "It may be locked or damaged: try again, or put a copy of it back."
                if "database schema" in said:
                    hint = f"Use the MLflow that wrote it; or copy it first, then run: mlflow db upgrade {self.uri}"
                raise OperationalError(f"cannot be used: {said}", where=self.uri, hint=hint) from error
            hint = "Look whether it runs, and whether MLFLOW_TRACKING_URI is right."
            raise OperationalError(f"the tracking server does not answer: {said}", where=self.uri, hint=hint) from error

    def find(self, run: str) -> TrackedRun:
        """A parent run by id, or the newest one by name, over all experiments. Raises UserError with what there is."""
        experiments = [experiment.experiment_id for experiment in self.client.search_experiments()]
        named = self.client.search_runs(
            experiments, f"attributes.run_name = '{_quoted(run)}'", order_by=["attributes.start_time DESC"]
        )
        recent = self.client.search_runs(experiments, order_by=["attributes.start_time DESC"])
        for found in (*named, *recent):
            if PARENT not in found.data.tags and run in (found.info.run_id, found.info.run_name):
                return _tracked(found)
        names = (found.info.run_name for found in recent if PARENT not in found.data.tags)
        known = ", ".join(dict.fromkeys(names)) or "none"
        raise UserError(f"there is no run '{run}'", where=self.uri, hint=f"runs: {known}")

    def children(self, run: TrackedRun) -> Iterator[TrackedRun]:
        """The stages of a run, in the order they were begun."""
        experiments = [self.client.get_run(run.id).info.experiment_id]
        token: str | None = None
        while token != "":
            page = self.client.search_runs(
                experiments,
                f"tags.`{PARENT}` = '{run.id}'",
                order_by=["attributes.start_time ASC"],
                page_token=token,
            )
            yield from (_tracked(found) for found in page)
            token = page.token or ""

    def recent(self, count: int) -> list[TrackedRun]:
        """The newest parent runs over all experiments, the newest first."""
        experiments = [experiment.experiment_id for experiment in self.client.search_experiments()]
        found = self.client.search_runs(experiments, order_by=["attributes.start_time DESC"])
        return [_tracked(run) for run in found if PARENT not in run.data.tags][:count]

    def fetch(self, source: str, target: Path) -> Path:
        """The directory of artifacts at a URI: where it is, if on this machine, else a copy made at `target`."""
        from mlflow.artifacts import download_artifacts

        if urlparse(source).scheme in ("", "file"):
            return Path(unquote(urlparse(source).path))
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".partial-") as beside:
                fetched = Path(download_artifacts(artifact_uri=source, dst_path=beside, tracking_uri=self.uri))
                shutil.move(fetched, target)
        return target

    def start(
        self,
        experiment: str,
        name: str,
        time: int,
        params: Mapping[str, str],
        tags: Mapping[str, str],
        parent: str | None = None,
        *,
        key: str = "",
        again: bool = False,
    ) -> str:
        """Begin a run, below its parent if there is one; its id. time: in milliseconds, as in all that follows.

        key: what names this run among all. again: it may have been begun before, by a request without an answer.
        """
        from mlflow.entities import Param

        tags = {**({KEY: key} if key else {}), **({} if parent is None else {PARENT: parent}), **tags}
        first = dict(list(tags.items())[: BATCH["tags"]])
        experiment_id = self._experiment(experiment)
        run_id = self._with_key(experiment_id, key) if again and key else None
        if run_id is None:
            run_id = _answered(self.client.create_run(experiment_id, time, first, run_name=name).info.run_id)
        values = [Param(name, value[:LONGEST_VALUE]) for name, value in params.items()]
        for start in range(0, len(values), BATCH["params"]):
            self.client.log_batch(run_id, params=values[start : start + BATCH["params"]])
        return run_id

    def _with_key(self, experiment_id: str, key: str) -> str | None:
        found = self.client.search_runs([experiment_id], f"tags.`{KEY}` = '{_quoted(key)}'", max_results=1)
        return _answered(found[0].info.run_id) if found else None

    def _experiment(self, name: str) -> str:
        if name not in self._experiments:
            found = self.client.get_experiment_by_name(name)
            if found is not None:
                self._experiments[name] = _answered(found.experiment_id)
            else:
                location = (self.home / ARTIFACTS).as_uri() if self.is_file else None
                self._experiments[name] = _answered(self.client.create_experiment(name, artifact_location=location))
        return self._experiments[name]

    def log_metrics(self, run_id: str, points: Iterable[tuple[str, float, int, int]]) -> None:
        """Points (name, value, time, step) of a run's curves."""
        from mlflow.entities import Metric

        values = [Metric(str(name), float(value), int(time), int(step)) for name, value, time, step in points]
        for start in range(0, len(values), BATCH["metrics"]):
            self.client.log_batch(run_id, metrics=values[start : start + BATCH["metrics"]])

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Tags added to a run."""
        from mlflow.entities import RunTag

        values = [RunTag(name, value[:LONGEST_VALUE]) for name, value in tags.items()]
        for start in range(0, len(values), BATCH["tags"]):
            self.client.log_batch(run_id, tags=values[start : start + BATCH["tags"]])

    def log_artifacts(self, run_id: str, directory: Path, files: Iterable[str]) -> None:
        """Copy files of a directory to the run's artifacts."""
        for name in files:
            folder = Path(name).parent.as_posix()
            self.client.log_artifact(run_id, str(directory / name), None if folder == "." else folder)

    def end(self, run_id: str, status: str, time: int) -> None:
        """status: FINISHED, FAILED or KILLED."""
        self.client.set_terminated(run_id, status, time)


def is_refusal(error: Exception) -> bool:
    """Whether the server answered and will never accept this (rather than being away, or broken, for a while)."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

    if not isinstance(error, MlflowException):
        return isinstance(error, FileNotFoundError | KeyError)
    # A status without an answer of MLflow's own is of something that stands before it.
    elsewhere = error.message.startswith(NO_ANSWER)
    cause = error.__cause__
    broken = isinstance(cause, SQLAlchemyError) and not isinstance(cause, DataError | IntegrityError)
    return error.error_code in REFUSALS and not elsewhere and not broken


def _answered(identity: str) -> str:
    """An id that a server gave. Raises OperationalError where its answer had none: it is not whole."""
    if not identity:
        raise OperationalError("the tracking server gave half an answer")
    return identity


def _quoted(name: str) -> str:
    """A name inside a filter's quotes; a quote of its own would end them."""
    return name.replace("'", "")


def _tracked(run: Run) -> TrackedRun:
    return TrackedRun(run.info.run_id, run.info.run_name, dict(run.data.tags), dict(run.data.metrics))
