"""Settings of where and how an experiment's steps run; no result depends on them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_COUNT
from subgraft.config.settings_base import Settings

ZeroStage = Literal[0, 1, 2, 3]
MAX_CORES = 10_000
Cores = Annotated[int, Field(ge=1, le=MAX_CORES)]
Offload = Literal["none", "optimizer", "parameters"]


class Runtime(Settings):
    """Where and how steps run. None of these is part of a recipe: results of two runtimes agree within a tolerance.

    workers: processes that share one training.
    gpus_per_worker: GPUs for a step, or for each worker of a training; 0 for CPUs.
    cpus: the maximum number of cores that a run uses on this machine; all by default.
    cpus_per_step: cores that a step reserves and computes with.
    pretrain_cpus: cores of pretraining, in place of cpus_per_step.
    evaluate_cpus: cores of an evaluation; with all cores of a machine, other steps do not disturb its speeds.
    zero_stage: train with DeepSpeed at this stage of ZeRO: 1 shards the optimizer's state over workers, 2 also
    gradients, 3 also parameters; null for plain PyTorch.
    offload: what DeepSpeed moves from GPU memory to the machine's: the optimizer's state, or that and the parameters.
    activation_checkpointing: recompute activations in the backward pass: less memory, more time.
    checkpoint_seconds: the interval between checkpoints, which bounds the training time that a kill loses.
    checkpoints_in_background: whether checkpoints are written while training continues, from a copy in memory (12 bytes
    a trained parameter); if not, training waits.
    max_failures: how often a step that lost its node or worker is retried.
    heartbeat_timeout: seconds without a heartbeat, and without computing, after which a process counts as lost.
    tracking_uri: the MLflow server to record on; by default MLFLOW_TRACKING_URI, or a file in the store's home.
    dashboard: whether Ray's dashboard is started.
    price_per_device_hour: the price of an hour of a GPU, or of a worker without one, for plans.
    currency: the currency of that price.
    device_flops: floating-point operations per second that a device sustains in training, for plans before any run.
    """

    workers: Annotated[int, Field(ge=1, le=10_000)] = 1
    gpus_per_worker: Annotated[float, Field(ge=0, le=1000)] = 0
    cpus: Cores | None = None
    cpus_per_step: Cores = 1
    pretrain_cpus: Cores | None = None
    evaluate_cpus: Cores | None = None
    zero_stage: ZeroStage | None = None
    offload: Offload = "none"
    activation_checkpointing: bool = False
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 60.0
    checkpoints_in_background: bool = True
    max_failures: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    heartbeat_timeout: Annotated[float, Field(ge=10)] = 300.0
    tracking_uri: str | None = None
    dashboard: bool = False
    price_per_device_hour: Annotated[float, Field(ge=0)] | None = None
    currency: str = "USD"
    device_flops: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _offloadable(self) -> Runtime:
        """Offloading needs DeepSpeed at a stage that splits what is offloaded."""
        if self.offload == "optimizer" and not self.zero_stage:
            raise ValueError("offload: optimizer needs zero_stage 1, 2 or 3")
        if self.offload == "parameters" and self.zero_stage != 3:
            raise ValueError("offload: parameters needs zero_stage 3")
        return self
