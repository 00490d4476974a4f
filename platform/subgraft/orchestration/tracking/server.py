"""The tracking server's client, which registry and delivery use.

By default runs and models are in an SQLite file, <home>/mlflow.db, with artifacts under <home>/mlartifacts. Models are
plain directories (safetensors and JSON): nothing in the registry is unpickled or loaded as pyfunc.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.locks import Lock
from subgraft.orchestration.store.home import default_home, other_store_hint
from subgraft.orchestration.tracking.database import make_or_check, relocate_artifacts

if TYPE_CHECKING:
    from mlflow.entities import Run

MAX_TAGS = 100  # of a new run, by MLflow's limit
MAX_VALUE_LENGTH = 5000
PARENT = "mlflow.parentRunId"
KEY = "subgraft.key"  # a unique tag: finds a run whose creation was not answered
# MLflow's kind of an experiment with trainings. Without it the page guesses, and asks the user.
KIND = ("mlflow.experimentKind", "custom_model_development")
CONTEXT = "mlflow.data.context"
SQLITE = "sqlite:///"
ARTIFACTS = "mlartifacts"
REFUSALS = ("INVALID_PARAMETER_VALUE", "RESOURCE_DOES_NOT_EXIST", "BAD_REQUEST", "PERMISSION_DENIED", "INVALID_STATE")
NO_ANSWER = "API request to "  # the start of the client's message about such an error
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # errors that it raises are reported without its own traceback
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # would print every run that ends, with the server's password
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # a repetition would start a second run (see `Server.start`)
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "GIT_PYTHON_REFRESH": "quiet",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # seven processes that serve its other features
}


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """A recorded run; metrics are the last value of each curve."""

    id: str
    name: str
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    experiment: str
    status: str = "FINISHED"


def tracking_uri(home: Path, uri: str | None = None) -> str:
    """`uri` if set, else MLFLOW_TRACKING_URI, else the SQLite file under home."""
    return uri or os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{home.absolute() / 'mlflow.db'}"


class Server:
    """A connection. Creating one imports MLflow, and creates the SQLite file if it is absent.

    Raises OperationalError if the file or server cannot be used, UserError if the file is another program's.
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
        with self.answering(), self.exclusive():
            if database is not None:
                make_or_check(database)
            self.client = MlflowClient(tracking_uri=self.uri, registry_uri=self.uri)
            if database is not None and database == self.home / database.name:
                relocate_artifacts(database, self.home / ARTIFACTS)

    @property
    def is_file(self) -> bool:
        """Whether it is an SQLite file rather than a server."""
        return self.uri.startswith(SQLITE)

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Exclusive access within the block, among processes that share an SQLite file."""
        if not self.is_file:
            yield
            return
        with Lock.wait(Path(f"{self.uri.removeprefix(SQLITE)}.claim"), "is at the same database", seconds=0.05):
            yield

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Requests within the block must succeed: raises OperationalError if the server is down or broken."""
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (MlflowException, SQLAlchemyError) as error:
            reason = str(error).strip().splitlines()[0].split(". ")[0]
            if self.is_file:
                hint = "It may be locked or damaged: try again, or put a copy of it back."
                if "database schema" in reason:
                    hint = f"Use the MLflow that wrote it; or copy it first, then run: mlflow db upgrade {self.uri}"
                raise OperationalError(f"cannot be used: {reason}", where=self.uri, hint=hint) from error
            hint = "Check that it runs, and that MLFLOW_TRACKING_URI is right."
            raise OperationalError(
                f"the tracking server does not answer: {reason}", where=self.uri, hint=hint
            ) from error

    def find(self, run: str) -> TrackedRun:
        """A parent run by id, or the newest by name, in all experiments. Raises UserError with the existing runs."""
        same_name, recent = self.newest(f"attributes.run_name = '{_strip_quotes(run)}'"), self.newest()
        for candidate in (*same_name, *recent):
            if PARENT not in candidate.tags and run in (candidate.id, candidate.name):
                return candidate
        names = (candidate.name for candidate in recent if PARENT not in candidate.tags)
        existing = ", ".join(dict.fromkeys(names)) or "none"
        raise UserError(f"there is no run '{run}'", where=self.uri, hint=f"runs: {existing}")

    def children(self, run: TrackedRun) -> Iterator[TrackedRun]:
        """The stages of a run, in the order they were started."""
        experiments, condition = [self.client.get_run(run.id).info.experiment_id], f"tags.`{PARENT}` = '{run.id}'"
        oldest_first = ["attributes.start_time ASC"]
        yield from map(_to_tracked_run, pages(self.client.search_runs, experiments, condition, order_by=oldest_first))

    def recent(self, count: int) -> list[TrackedRun]:
        """The newest parent runs of all experiments, newest first."""
        return [run for run in self.newest() if PARENT not in run.tags][:count]

    def newest(self, condition: str = "", experiments: list[str] | None = None) -> list[TrackedRun]:
        """The newest runs that meet a condition, of these experiments or of all, the newest first."""
        searched = experiments or [experiment.experiment_id for experiment in self.client.search_experiments()]
        newest = self.client.search_runs(searched, condition, order_by=["attributes.start_time DESC"])
        return [_to_tracked_run(run) for run in newest]

    def fetch(self, source: str, target: Path) -> Path:
        """The directory of artifacts at a URI: itself if it is on this machine, else a copy at `target`."""
        from mlflow.artifacts import download_artifacts

        if urlparse(source).scheme in ("", "file"):
            return Path(unquote(urlparse(source).path))
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".partial-") as folder:
                fetched = Path(download_artifacts(artifact_uri=source, dst_path=folder, tracking_uri=self.uri))
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
        """Start a run, below its parent if there is one, and return its id. Times are in milliseconds.

        `key` is unique to this run; with `again` an earlier, unanswered request may have started it already.
        """
        from mlflow.entities import Param

        tags = {**({KEY: key} if key else {}), **({} if parent is None else {PARENT: parent}), **tags}
        first = dict(list(tags.items())[:MAX_TAGS])
        experiment_id = self._experiment(experiment)
        started: Sequence[Run] = ()
        if again and key:
            with_key = f"tags.`{KEY}` = '{_strip_quotes(key)}'"
            started = self.client.search_runs([experiment_id], with_key, max_results=1)
        run = started[0] if started else self.client.create_run(experiment_id, time, first, run_name=name)
        run_id = _require_id(run.info.run_id)
        values = [Param(name, value[:MAX_VALUE_LENGTH]) for name, value in params.items()]
        self.client.log_batch(run_id, params=values)
        return run_id

    def _experiment(self, name: str) -> str:
        if name not in self._experiments:
            existing = self.client.get_experiment_by_name(name)
            if existing is not None:
                self._experiments[name] = _require_id(existing.experiment_id)
            else:
                location = (self.home / ARTIFACTS).as_uri() if self.is_file else None
                created = self.client.create_experiment(name, artifact_location=location, tags=dict([KIND]))
                self._experiments[name] = _require_id(created)
        return self._experiments[name]

    def set_experiment_kinds(self) -> None:
        """Set the kind of experiments without one, so that MLflow's page opens them on their runs."""
        for experiment in self.client.search_experiments():
            if KIND[0] not in experiment.tags:
                self.client.set_experiment_tag(experiment.experiment_id, *KIND)

    def log_metrics(self, run_id: str, points: Iterable[tuple[str, float, int, int]]) -> None:
        """Points (name, value, time, step) of a run's curves."""
        from mlflow.entities import Metric

        values = [Metric(str(name), float(value), int(time), int(step)) for name, value, time, step in points]
        self.client.log_batch(run_id, metrics=values)

    def set_tags(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Tags added to a run."""
        from mlflow.entities import RunTag

        self.client.log_batch(run_id, tags=[RunTag(name, value[:MAX_VALUE_LENGTH]) for name, value in tags.items()])

    def log_artifacts(self, run_id: str, directory: Path, files: Iterable[str], folder: str = "") -> None:
        """Copy files of a directory to the run's artifacts, or to a folder of these."""
        for name in files:
            target = (Path(folder) / name).parent.as_posix()
            self.client.log_artifact(run_id, str(directory / name), None if target == "." else target)

    def log_datasets(self, run_id: str, datasets: Iterable[Mapping[str, str]]) -> None:
        """Log the datasets of a run: `name`, `digest`, `source`, `schema`, `profile` and, as a tag, `context`."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        inputs = []
        for dataset in datasets:
            fields = {name: value for name, value in dataset.items() if name != "context"}
            tags = [InputTag(CONTEXT, dataset["context"])]
            inputs.append(DatasetInput(Dataset(source_type="local", **fields), tags))
        self.client.log_inputs(run_id, inputs)

    def log_model(
        self,
        run_id: str,
        name: str,
        tags: Mapping[str, str],
        scores: Iterable[tuple[str, float, int, int]],
        dataset: tuple[str, str] | None,
    ) -> None:
        """Log the model that a run has trained (idempotent); its files are not copied.

        `scores` are points of curves; `dataset` is the name and digest of the data they were measured on.
        """
        from mlflow.entities import LoggedModelOutput, Metric

        model_id = self.model_of(run_id)
        if model_id is None:
            run = self.client.get_run(run_id)
            experiment = run.info.experiment_id
            source = {name: value for name, value in run.data.tags.items() if name.startswith("mlflow.source.")}
            (logged, *_) = (*self.client.search_logged_models([experiment], f"source_run_id = '{run_id}'"), None)
            model = logged or self.client.create_logged_model(experiment, name, run_id, {**source, **tags})
            model_id = _require_id(model.model_id)
            self.client.finalize_logged_model(model_id, "READY")
            self.client.log_outputs(run_id, [LoggedModelOutput(model_id, 0)])
        dataset_fields = dict(zip(("dataset_name", "dataset_digest"), dataset or (), strict=False))
        points = [
            Metric(key, float(value), time, step, model_id=model_id, **dataset_fields)
            for key, value, time, step in scores
        ]
        if points:
            self.client.log_batch(run_id, metrics=points)

    def model_of(self, run_id: str) -> str | None:
        """The id of the model that a run has trained, where it was logged."""
        outputs = self.client.get_run(run_id).outputs
        models = outputs.model_outputs if outputs else []
        return models[0].model_id if models else None

    def end(self, run_id: str, status: str, time: int) -> None:
        """status: FINISHED, FAILED or KILLED."""
        self.client.set_terminated(run_id, status, time)


@contextlib.contextmanager
def recording_server() -> Iterator[Server]:
    """The server on which the runs of this store are recorded.

    Raises UserError if nothing has been recorded yet, OperationalError if the server does not answer.
    """
    require_recorded()
    server = Server(default_home())
    with server.answering():
        yield server


def require_recorded() -> None:
    """Raises UserError if nothing has been recorded in this store."""
    database = default_home() / "mlflow.db"
    if tracking_uri(default_home()) == f"sqlite:///{database}" and not database.is_file():
        hint = f"Run an experiment first, or set SUBGRAFT_HOME to where one was run.{other_store_hint()}"
        raise UserError("no run has been recorded here", where=str(default_home()), hint=hint)


def is_refusal(error: Exception) -> bool:
    """Whether the server will never accept this, rather than being unavailable for a while."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

    if not isinstance(error, MlflowException):
        return isinstance(error, FileNotFoundError | KeyError)
    # A status without MLflow's own answer comes from a proxy before it.
    from_proxy = error.message.startswith(NO_ANSWER)
    cause = error.__cause__
    database_failure = isinstance(cause, SQLAlchemyError) and not isinstance(cause, DataError | IntegrityError)
    return error.error_code in REFUSALS and not from_proxy and not database_failure


def _require_id(identity: str) -> str:
    """An id from a server's answer. Raises OperationalError if the answer has none."""
    if not identity:
        raise OperationalError("the tracking server's answer is incomplete")
    return identity


def _strip_quotes(name: str) -> str:
    """A name for use inside a filter's quotes, without quotes of its own."""
    return name.replace("'", "")


def _to_tracked_run(run: Run) -> TrackedRun:
    tags, metrics = dict(run.data.tags), dict(run.data.metrics)
    return TrackedRun(run.info.run_id, run.info.run_name, tags, metrics, run.info.experiment_id, run.info.status)


def pages(search: Callable[..., Any], *arguments: Any, **options: Any) -> Iterator[Any]:
    """All results of an MLflow search, page by page."""
    token: str | None = None
    while token != "":
        page = search(*arguments, **options, page_token=token)
        yield from page
        token = page.token or ""
