"""Where and how an experiment's steps run, which no result may depend on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import LARGEST_COUNT
from subgraft.config.settings_base import Settings

ZeroStage = Literal[0, 1, 2, 3]
MOST_CORES = 10_000
Cores = Annotated[int, Field(ge=1, le=MOST_CORES)]
Offload = Literal["none", "optimizer", "parameters"]


class Runtime(Settings):
    """Where and how steps run. Nothing here may enter a recipe: another runtime agrees within a tolerance.

    workers: processes that share one training; more than one for several GPUs or nodes.
    gpus_per_worker: GPUs that a step, or each worker of a training, asks for; 0 for CPUs.
    cpus: cores that a run on this machine takes in all; all there are where not given. No step gets more.
    cpus_per_step: cores that a step asks for and computes with.
    pretrain_cpus: cores of pretraining, in place of cpus_per_step.
    evaluate_cpus: cores of an evaluation; with all of a machine's, nothing runs beside it and its speeds are
    undisturbed.
    zero_stage: trains with DeepSpeed at this stage of ZeRO: 1 splits the optimizer's state over workers, 2 gradients
    too, 3 parameters too; null for plain PyTorch.
    offload: what DeepSpeed keeps in the memory of the machine rather than the GPU's: the optimizer's state, or that and
    the parameters.
    activation_checkpointing: computes activations anew in the backward pass: less memory, more time.
    checkpoint_seconds: how often a training saves where it is; a kill loses at most that much, and what was trained
    while the last save was being written.
    checkpoints_in_background: whether checkpoints are written while training goes on, from a copy that the machine's
    memory holds (with Adam 12 bytes a trained parameter); if not, training waits for them.
    max_failures: how often a step that lost its node or worker is tried again.
    heartbeat_timeout: seconds without a heartbeat, and without computing, after which a process counts as lost.
    tracking_uri: the MLflow server to record on; MLFLOW_TRACKING_URI, or a file in the store's home, where not given.
    dashboard: whether Ray's dashboard is started.
    price_per_device_hour: what an hour of a device costs, for plans; a device is a GPU, or a worker where there is
    none.
    currency: what that price is in.
    device_flops: floating-point operations a second that a device sustains in training, for the forecast of a plan
    before anything was run.
    """

    workers: Annotated[int, Field(ge=1, le=10_000)] = 1
    gpus_per_worker: Annotated[float, Field(ge=0, le=1000)] = 0
    cpus: Cores | None = Field(default=None, exclude_if=lambda given: given is None)
    cpus_per_step: Cores = 1
    pretrain_cpus: Cores | None = None
    evaluate_cpus: Cores | None = None
    zero_stage: ZeroStage | None = None
    offload: Offload = "none"
    activation_checkpointing: bool = False
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 60.0
    checkpoints_in_background: bool = Field(default=True, exclude_if=lambda given: given)
    max_failures: Annotated[int, Field(ge=0, le=LARGEST_COUNT)] = 0
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
