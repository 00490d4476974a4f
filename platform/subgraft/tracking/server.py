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

if TYPE_CHECKING:
    from mlflow.entities import Run

BATCH = {"metrics": 1000, "params": 100, "tags": 100}  # MLflow's limits for one request
LONGEST_VALUE = 5000
PARENT = "mlflow.parentRunId"
SQLITE = "sqlite:///"
ARTIFACTS = "mlartifacts"
MAKING = ".making-mlflow-"
REFUSALS = ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "BAD_REQUEST", "PERMISSION_DENIED", "INVALID_STATE")
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # of every run that ends, with the server's password
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
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
    """A connection. Making it imports MLflow, and creates the SQLite file's tables where they are absent."""

    def __init__(self, home: Path, uri: str | None = None) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        from mlflow import MlflowClient

        self.home = home.absolute()
        self.home.mkdir(parents=True, exist_ok=True)
        self.uri = tracking_uri(self.home, uri)
        self._experiments: dict[str, str] = {}
        with self.alone():
            if self.is_file:
                _make_tables(Path(self.uri.removeprefix(SQLITE)))
        self.client = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)

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
        with Lock.wait(Path(f"{self.uri.removeprefix(SQLITE)}.claim"), lambda: None, seconds=0.05):
            yield

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """What is asked inside must be answered: OperationalError where the server is away or broken."""
        from mlflow.exceptions import MlflowException

        try:
            yield
        except MlflowException as error:
            said = str(error).splitlines()[0]
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
    ) -> str:
        """Begin a run, below its parent if there is one; its id. time: in milliseconds, as in all that follows."""
        from mlflow.entities import Param

        tags = dict(tags) if parent is None else {**tags, PARENT: parent}
        first = dict(list(tags.items())[: BATCH["tags"]])
        created = self.client.create_run(self._experiment(experiment), time, first, run_name=name)
        run_id: str = created.info.run_id
        values = [Param(name, value[:LONGEST_VALUE]) for name, value in params.items()]
        for start in range(0, len(values), BATCH["params"]):
            self.client.log_batch(run_id, params=values[start : start + BATCH["params"]])
        return run_id

    def _experiment(self, name: str) -> str:
        if name not in self._experiments:
            found = self.client.get_experiment_by_name(name)
            if found is not None:
                self._experiments[name] = found.experiment_id
            else:
                location = (self.home / ARTIFACTS).as_uri() if self.is_file else None
                self._experiments[name] = self.client.create_experiment(name, artifact_location=location)
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


def _make_tables(database: Path) -> None:
    """The SQLite file with its tables, where it is absent; whole or not at all, as MLflow never mends half-made tables.

    The caller sees to it that nobody else does this.
    """
    from mlflow import MlflowClient

    if database.exists():
        return
    for left in database.parent.glob(f"{MAKING}*"):  # by a killed process
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=database.parent, prefix=MAKING) as folder:
        beside = Path(folder) / database.name
        MlflowClient(tracking_uri=f"{SQLITE}{beside}").search_experiments(max_results=1)
        beside.rename(database)


def is_refusal(error: Exception) -> bool:
    """Whether the server answered and will never accept this (rather than being away for a while)."""
    from mlflow.exceptions import MlflowException

    refused = isinstance(error, MlflowException) and error.error_code in REFUSALS
    return refused or isinstance(error, FileNotFoundError | KeyError)


def _quoted(name: str) -> str:
    """A name inside a filter's quotes; a quote of its own would end them."""
    return name.replace("'", "")


def _tracked(run: Run) -> TrackedRun:
    return TrackedRun(run.info.run_id, run.info.run_name, dict(run.data.tags), dict(run.data.metrics))
