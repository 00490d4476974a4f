"""Where and how an experiment's steps run, which no result may depend on."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.base import Settings

ZeroStage = Literal[0, 1, 2, 3]
Offload = Literal["none", "optimizer", "parameters"]


class Runtime(Settings):
    """Where and how steps run. Nothing here may enter a recipe: another runtime agrees within a tolerance.

    pretrain_cpus, evaluate_cpus: cores of those stages; all of a machine's, and an evaluation times its speed alone.
    offload: what DeepSpeed keeps in the memory of the machine rather than the GPU's: the optimizer's state, or that and
    the parameters.  price_per_device_hour, currency: for plans; a device is a GPU, or a worker where there is none.
    device_flops: floating-point operations a second that a device sustains in training, to plan what was never run.
    """

    workers: Annotated[int, Field(ge=1)] = 1
    gpus_per_worker: Annotated[float, Field(ge=0)] = 0
    cpus_per_step: Annotated[int, Field(ge=1)] = 1
    pretrain_cpus: Annotated[int, Field(ge=1)] | None = None
    evaluate_cpus: Annotated[int, Field(ge=1)] | None = None
    zero_stage: ZeroStage | None = None
    offload: Offload = "none"
    activation_checkpointing: bool = False
    checkpoint_seconds: Annotated[float, Field(gt=0)] = 60.0
    max_failures: Annotated[int, Field(ge=0)] = 0
    tracking_uri: str | None = None
    dashboard: bool = False
    price_per_device_hour: Annotated[float, Field(ge=0)] | None = None
    currency: str = "USD"
    device_flops: Annotated[float, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _offloadable(self) -> Runtime:
        """Offloading is DeepSpeed's, and of what it has split up."""
        if self.offload == "optimizer" and not self.zero_stage:
            raise ValueError("offload: optimizer needs zero_stage 1, 2 or 3")
        if self.offload == "parameters" and self.zero_stage != 3:
            raise ValueError("offload: parameters needs zero_stage 3")
        return self
