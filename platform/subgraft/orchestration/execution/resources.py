"""The resources that a step needs, and whether a cluster has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from subgraft.base.errors import UserError
from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.worker import Job

RESOURCE_SETTINGS = "runtime.workers, runtime.cpus_per_step or runtime.gpus_per_worker"


def machines() -> list[Mapping[str, float]]:
    """Ray's resources (CPU, GPU, ...) of each running machine."""
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [node["Resources"] for node in nodes if node["Alive"]]


def gpus_here() -> int:
    """The GPUs of this machine that a Ray started by this process would offer; Ray itself is not started."""
    from ray._private.accelerators import get_accelerator_manager_for_resource

    manager = get_accelerator_manager_for_resource("GPU")
    if manager is None:
        return 0
    visible = manager.get_current_process_visible_accelerator_ids()
    present = manager.get_current_node_num_accelerators()
    return present if visible is None else min(present, len(visible))


def gpu_shortage(runtime: Runtime) -> str:
    """One line if a training asks for more GPUs than this machine has, else an empty string."""
    required = runtime.workers * runtime.gpus_per_worker
    if not required or (available := gpus_here()) >= required:
        return ""
    return f"{required:g} {'GPU' if required == 1 else 'GPUs'} asked for, and this machine has {available or 'none'}"


def require_gpus(runtime: Runtime) -> None:
    """Raises UserError if this machine has fewer GPUs than a training asks for."""
    if problem := gpu_shortage(runtime):
        hint = "Set runtime.gpus_per_worker=0 to train on the CPU, or --address for a cluster that has them."
        raise UserError(problem, where="runtime.gpus_per_worker", hint=hint)


def check_fits(jobs: Sequence[Job], available: Mapping[str, float]) -> None:
    """Raises UserError for a job that this cluster could never start; `available` are Ray's resources of all of it."""
    for job in jobs:
        workers = job.runtime.workers if job.distributed else 1
        required = {"GPU": workers * job.gpus, **({"CPU": workers * job.cpus} if job.distributed else {})}
        for resource, amount in required.items():
            present = available.get(resource, 0)
            if amount > present:
                raise UserError(
                    f"{job.step.name} needs {amount:g} {resource}s, but the cluster has {present:g}",
                    where="runtime",
                    hint=f"lower {RESOURCE_SETTINGS}",
                )


def task_resources(job: Job, running: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The resources to request for a task: at most the cores of the largest machine, or it would wait forever."""
    max_cores = max((machine.get("CPU", 0) for machine in running), default=0)
    return {"num_cpus": min(job.cpus, max_cores) if max_cores else job.cpus, "num_gpus": job.gpus}


def groups_at_once(job: Job, available: Mapping[str, float]) -> int:
    """How many worker groups like the job's fit at a time, at least one."""
    required = {"CPU": job.runtime.workers * job.cpus, "GPU": job.runtime.workers * job.gpus}
    return max(1, min(int(available.get(name, 0) // amount) for name, amount in required.items() if amount))


def machine_shortage(job: Job, running: Sequence[Mapping[str, float]]) -> str:
    """One line if no running machine could start a worker of the job, else an empty string."""
    task = task_resources(job, running)
    required = {"CPU": job.cpus if job.distributed else task["num_cpus"], "GPU": job.gpus}
    if any(all(machine.get(name, 0) >= amount for name, amount in required.items()) for machine in running):
        return ""
    amounts = " and ".join(f"{amount:g} {name}s" for name, amount in required.items() if amount)
    return (
        f"waits for a machine with {amounts}, which the cluster does not have now; unless it grows, lower "
        f"{RESOURCE_SETTINGS}"
    )
