"""Execution of one step inside a Ray task, alone or on the workers of a Ray Train group."""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import OperationalError, SubgraftError
from subgraft.base.locks import Lock, report_long_waits
from subgraft.base.memory import return_freed_memory
from subgraft.base.security.local_ray import local_folder
from subgraft.base.security.redaction import redact
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.early_stopping import copy_checkpoints
from subgraft.orchestration.execution.heartbeat import heartbeats
from subgraft.orchestration.store.disk import space_needed
from subgraft.orchestration.store.events import EVENTS, EventLog, Progress, StageContext, Started, Warned
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.record import Record
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store

if TYPE_CHECKING:
    from subgraft.training.context import Json

TRACEBACK = "error.txt"
RAY_TRAIN = "ray-train"
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Job:
    """A step to execute; cpus and gpus are per worker (runtime.workers of them if `distributed`, else one)."""

    step: Step
    home: Path
    runtime: Runtime
    cpus: int
    gpus: float
    distributed: bool
    provenance: Provenance


def perform(job: Job) -> Record:
    """Execute and publish a step whose inputs the caller has verified.

    If another process already makes the same step, wait for it and use its artifact, or its checkpoint if it died.

    Returns:
        The record of the published artifact.

    Raises:
        SubgraftError: As the stage raised it.
        OperationalError: For any other exception; it names a traceback file.
    """
    work = Store(job.home).work(job.step)
    with space_needed(job.home):
        work.mkdir(parents=True, exist_ok=True)
        log = EventLog(work / EVENTS)
        store = Store(job.home, lambda line: log.append(Warned(line)))

        def waiting() -> None:
            log.append(Progress(0, 0, "waiting for another process at the same step"))

        claim = work.with_name(f"{work.name}.claim")
        with (
            heartbeats(work, "its process"),
            Lock.wait(claim, "makes the same step", waiting),
        ):
            published = store.find(job.step)
            if published is not None:
                return published
            copy_checkpoints(store, job.step)
            log.append(Started())
            return _publish(job, store, work)


def _publish(job: Job, store: Store, work: Path) -> Record:
    run = _on_worker_group if job.distributed else _run_here
    try:
        record = store.publish(job.step, lambda out: run(job, out), replace(job.provenance, device=_device(job)))
    except SubgraftError:
        raise
    except Exception as error:
        (work / TRACEBACK).write_text(redact(traceback.format_exc()), encoding="utf-8")
        raise OperationalError(
            f"{type(error).__name__}: {error}", where=job.step.name, hint=f"the traceback is in {work / TRACEBACK}"
        ) from None
    finally:
        return_freed_memory()  # the process waits for its next step, while others may need it
    for path in work.iterdir():
        if path.name != EVENTS:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return record


def _run_here(job: Job, out: Path, rank: int = 0) -> Mapping[str, Json]:
    limit_threads(job.cpus)
    store = Store(job.home)
    work = store.work(job.step)
    context = StageContext(
        work, job.runtime, EventLog(work / EVENTS), rank, store.encoded, store.measured, job.provenance.command
    )
    inputs = {role: store.path(source) for role, source in job.step.inputs.items()}
    with report_long_waits(context.warn):
        return job.step.stage.run(inputs, out, context)


def limit_threads(cpus: int) -> None:
    """Limit the threads of numeric libraries, whether they are already loaded or not."""
    os.environ.update(dict.fromkeys(THREADS, str(cpus)))
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(cpus)


def _on_worker_group(job: Job, out: Path) -> Mapping[str, Json]:
    from ray.train import FailureConfig, RunConfig, ScalingConfig, WorkerGroupError
    from ray.train.torch import TorchConfig, TorchTrainer

    from subgraft.base.security.rendezvous import FileTorchConfig

    # Ray Train would load the state of an earlier attempt, and crash if it is damaged.
    state_folder = job.home / "work" / job.step.fingerprint / RAY_TRAIN
    shutil.rmtree(state_folder, ignore_errors=True)
    resources = {"CPU": job.cpus, **({"GPU": job.gpus} if job.gpus else {})}
    backend, folder = "nccl" if job.gpus else "gloo", local_folder()
    on_worker: Any = _on_worker  # returns a value, which Ray's annotation leaves out
    trainer: Any = TorchTrainer(
        on_worker,
        train_loop_config={"job": job, "out": out},
        torch_config=FileTorchConfig(backend, folder=str(folder)) if folder else TorchConfig(backend),
        scaling_config=ScalingConfig(
            num_workers=job.runtime.workers, use_gpu=bool(job.gpus), resources_per_worker=resources
        ),
        run_config=RunConfig(
            name=state_folder.name,
            storage_path=str(state_folder.parent),
            failure_config=FailureConfig(max_failures=job.runtime.max_failures),
        ),
    )
    try:
        summary: Mapping[str, Json] = trainer.fit().return_value
    except WorkerGroupError as failure:
        # The error of the first failing worker; errors of our own come first.
        causes = [getattr(error, "cause", None) or error for _, error in sorted(failure.worker_failures.items())]
        ours = [cause for cause in causes if isinstance(cause, SubgraftError)]
        raise (ours or causes or [failure])[0] from None
    return summary


def _on_worker(config: Mapping[str, Any]) -> Mapping[str, Json]:
    import torch.distributed
    from ray.train import get_context

    rank, job = get_context().get_world_rank(), config["job"]
    with heartbeats(Store(job.home).work(job.step), f"worker {rank} of {job.runtime.workers}"):
        if rank == 0:  # remove the files of a failed attempt of this worker group
            for path in config["out"].iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        torch.distributed.barrier()
        return _run_here(job, config["out"], rank)


def _device(job: Job) -> str:
    if not job.gpus:
        return "cpu"
    import torch

    return f"cuda ({torch.cuda.get_device_name()})" if torch.cuda.is_available() else "cuda"
