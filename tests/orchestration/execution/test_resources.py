"""What a step asks of machines, and which of them could start it."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.config.runtime import Runtime
from subgraft.orchestration.execution.resources import groups_at_once, machine_shortage, task_resources
from subgraft.orchestration.execution.worker import Job
from subgraft.orchestration.store.provenance import Provenance
from subgraft.orchestration.store.step import Step
from subgraft.training.stage import Stage
from toy_steps import ToyKind

LAPTOP, GPU_NODE, HEAD = {"CPU": 2.0}, {"CPU": 8.0, "GPU": 1.0}, {"memory": 1e9}


def job(cpus: int, gpus: float = 0, distributed: bool = False) -> Job:
    step = Step(ToyKind("train", 1, lambda recipe, inputs, out, context: {}).of(Stage()), "train")
    return Job(step, Path("/nowhere"), Runtime(workers=2), cpus, gpus, distributed, Provenance())


def test_a_task_never_asks_for_more_cores_than_a_machine_has() -> None:
    assert task_resources(job(4), [LAPTOP, HEAD]) == {"num_cpus": 2.0, "num_gpus": 0}
    assert task_resources(job(4, 0.5), [LAPTOP, GPU_NODE]) == {"num_cpus": 4, "num_gpus": 0.5}
    assert task_resources(job(4), [HEAD]) == {"num_cpus": 4, "num_gpus": 0}, "a cluster that has not grown yet"


def test_worker_groups_at_a_time_are_as_many_as_a_machine_has_room_for() -> None:
    assert groups_at_once(job(1, distributed=True), {"CPU": 2.0}) == 1
    assert groups_at_once(job(2, distributed=True), {"CPU": 15.0}) == 3
    assert groups_at_once(job(1, 1, distributed=True), {"CPU": 64.0, "GPU": 4.0}) == 2
    assert groups_at_once(job(8, distributed=True), {"CPU": 2.0}) == 1, "it is refused elsewhere"


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (job(1), [LAPTOP]),
        (job(16), [LAPTOP]),  # task_resources
        (job(4, 1), [LAPTOP, GPU_NODE]),
        (job(8, 1, distributed=True), [GPU_NODE]),
    ],
)
def test_what_could_start_lacks_nothing(wanted: Job, there: list[dict[str, float]]) -> None:
    assert machine_shortage(wanted, there) == ""


@pytest.mark.parametrize(
    ("wanted", "there", "named"),
    [
        (job(1, 1), [LAPTOP], "1 CPUs and 1 GPUs"),
        (job(2, 2), [LAPTOP, GPU_NODE], "2 CPUs and 2 GPUs"),
        (job(1), [HEAD], "1 CPUs, which"),
        (job(16, 0, distributed=True), [GPU_NODE], "16 CPUs, which"),  # workers of a group are not task_resources
        (job(4, 1), [{"CPU": 64.0}, {"CPU": 2.0, "GPU": 1.0}], "4 CPUs and 1 GPUs"),  # not on one machine
        (job(1), [], "1 CPUs, which"),
    ],
)
def test_what_no_machine_has_is_named(wanted: Job, there: list[dict[str, float]], named: str) -> None:
    line = machine_shortage(wanted, there)
    assert named in line and "runtime.gpus_per_worker" in line
