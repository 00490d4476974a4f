"""A run as the tracking server will show it: a parent for the invocation, a child for every stage."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from subgraft.errors import OperationalError
from subgraft.store.events import Metrics, Progress, Warned
from subgraft.store.provenance import Provenance
from subgraft.store.record import RECORD, Record
from subgraft.store.step import Step, flatten
from subgraft.store.store import Store
from subgraft.tracking.delivery import Delivery
from subgraft.tracking.outbox import (
    EndRun,
    LogArtifacts,
    LogMetrics,
    Operation,
    Outbox,
    RegisterModel,
    SetTags,
    StartRun,
)
from subgraft.tracking.server import tracking_uri

PARENT = "invocation"
ARTIFACTS = "artifacts"
# Tags that say which step a run is of.
IDENTITY = ("stage", "fingerprint", "git_commit")


class Tracker:
    """An observer that notes everything in an outbox, which a thread delivers; no call here waits for the server.

    Params are the flattened recipe, tags the step's labels and identity, metrics the stage's own over its steps and
    then the numbers of its summary; a summary's texts become tags, and its list `artifacts` names small files to keep.
    """

    def __init__(
        self,
        store: Store,
        experiment: str,
        say: Callable[[str], None],
        *,
        name: str | None = None,
        uri: str | None = None,
        params: Mapping[str, Any] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.uri = tracking_uri(store.home, uri)
        self.name = name or time.strftime(f"{experiment}-%Y%m%d-%H%M%S")
        self._store = store
        self._say = say
        self._experiment = experiment
        self._outbox = _new_outbox(store.home / "tracking")
        self._lost = False
        self._last_start = 0
        self._begun: set[str] = set()
        self._above: dict[str, str] = {}
        self._seen: set[tuple[str, str, int]] = set()
        self._provenance = Provenance.here()
        described = {"argv": " ".join(self._provenance.argv), "git_commit": self._provenance.git_commit or ""}
        self._start(PARENT, None, self.name, params or {}, {**described, **(tags or {})})
        self._delivery = Delivery(self._outbox, store.home, uri, say)

    def cached(self, step: Step, record: Record) -> None:
        self._begin(step, {"cached": "true"})
        self._summarise(step, record)

    def started(self, step: Step) -> None:
        self._begin(step, {"cached": "false"})

    def progress(self, step: Step, event: Progress) -> None:
        pass

    def metrics(self, step: Step, event: Metrics) -> None:
        self.started(step)
        # A resumed training repeats the steps after its checkpoint.
        fresh = [name for name in event.values if (step.fingerprint, name, event.step) not in self._seen]
        self._seen.update((step.fingerprint, name, event.step) for name in fresh)
        if fresh:
            points = [(name, event.values[name], int(event.time * 1000), event.step) for name in fresh]
            self._note(LogMetrics(step.fingerprint, points))

    def warned(self, step: Step, event: Warned) -> None:
        self.started(step)
        self._note(SetTags(step.fingerprint, {"warning": event.line}))

    def finished(self, step: Step, record: Record) -> None:
        self.started(step)
        self._summarise(step, record)

    def failed(self, step: Step, error: BaseException) -> None:
        self.started(step)
        status = "FAILED" if isinstance(error, Exception) else "KILLED"
        self._note(SetTags(step.fingerprint, {"error": str(error) or type(error).__name__}))
        self._note(EndRun(step.fingerprint, status, _now()))

    def begin(self, run: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """Begin a child that is no stage, under a name of its own; `measure` and `end` belong to it."""
        self._start(run, PARENT, run, params, tags)

    def measure(self, run: str, values: Mapping[str, float], step: int = 0) -> None:
        """Points of its curves."""
        self._note(LogMetrics(run, [(name, float(value), _now(), step) for name, value in values.items()]))

    def end(self, run: str, status: str, tags: Mapping[str, str]) -> None:
        """status: FINISHED, FAILED or KILLED."""
        self._note(SetTags(run, tags))
        self._note(EndRun(run, status, _now()))

    def nest(self, step: Step, run: str) -> None:
        """Show a stage below a child that was begun, unless it is shown already."""
        self._above.setdefault(step.fingerprint, run)

    def register(
        self,
        step: Step,
        model: str,
        aliases: Sequence[str],
        tags: Mapping[str, str] | None = None,
        *,
        card: str = "",
        evaluation: Step | None = None,
    ) -> None:
        """Make a step's artifact a version of a registered model (the same content only once), and set aliases.

        The step must have been observed in this run. The model is a plain directory; nothing in it is executed. Its
        card and the texts of its evaluation travel with it, where they are given.
        """
        record = self._store.find(step)
        if record is None:
            raise ValueError(f"{step.name} has no artifact")
        described = {"fingerprint": step.fingerprint, **step.labels, **(tags or {})}
        directory = str(self._store.path(step))
        texts = str(self._store.path(evaluation)) if evaluation else ""
        self._note(
            RegisterModel(step.fingerprint, model, directory, record.digest, list(aliases), described, card, texts)
        )

    def close(self, status: str = "FINISHED") -> bool:
        """End the parent run (FINISHED, FAILED, KILLED) and deliver; False, and one line, if some is left to later."""
        self._note(EndRun(PARENT, status, _now()))
        if self._delivery.finish():
            return True
        self._say(f"not all of this run is recorded yet: {self._outbox.path} is sent with the next run")
        return False

    def _note(self, operation: Operation) -> None:
        try:
            self._outbox.append(operation)
        except OSError as error:  # a record that cannot be kept must not end the training
            if not self._lost:
                self._lost = True
                self._say(f"tracking: part of the record is lost ({error.strerror})")

    def _begin(self, step: Step, tags: Mapping[str, str]) -> None:
        if step.fingerprint in self._begun:
            return
        self._begun.add(step.fingerprint)
        identity = {
            "stage": step.stage.name,
            "fingerprint": step.fingerprint,
            "git_commit": self._provenance.git_commit or "",
        }
        recipe = step.recipe.model_dump(mode="json")
        parent = self._above.get(step.fingerprint, PARENT)
        self._start(step.fingerprint, parent, step.name, recipe, {**identity, **step.labels, **tags})

    def _start(
        self, run: str, parent: str | None, name: str, params: Mapping[str, Any], tags: Mapping[str, str]
    ) -> None:
        flat = {key: str(value) for key, value in flatten(params).items()}
        self._last_start = max(_now(), self._last_start + 1)  # runs are listed by their start
        self._note(StartRun(run, parent, self._experiment, name, dict(tags), flat, self._last_start))

    def _summarise(self, step: Step, record: Record) -> None:
        run, now = step.fingerprint, _now()
        summary = dict(record.summary)
        files = [str(name) for name in summary.pop(ARTIFACTS, ())]
        flat = flatten(summary)
        numbers = {name: float(value) for name, value in flat.items() if isinstance(value, int | float)}
        # A vocabulary's summary has a fingerprint of its own, which must not take the place of the step's.
        texts = {
            f"summary.{name}" if name in IDENTITY else name: str(value)
            for name, value in flat.items()
            if name not in numbers
        }
        points = [(name, value, now, 0) for name, value in {**numbers, "seconds": record.seconds}.items()]
        self._note(LogMetrics(run, points))
        self._note(SetTags(run, {"device": record.provenance.device, "digest": record.digest, **texts}))
        self._note(LogArtifacts(run, str(self._store.path(step)), [RECORD, *files]))
        self._note(EndRun(run, "FINISHED", now))


def _new_outbox(folder: Path) -> Outbox:
    try:
        return Outbox.create(folder)
    except OSError as error:
        raise OperationalError(
            f"cannot write there: {error.strerror}",
            where=str(folder),
            hint="set SUBGRAFT_HOME to a place that can be written to",
        ) from error


def _now() -> int:
    return int(time.time() * 1000)
