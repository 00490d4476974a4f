"""The DeepSpeed engine (ZeRO 0 to 3); the only file that imports DeepSpeed.

Its state has the same names as the plain engine's. Under ZeRO 1 to 3 each worker saves the slices that its optimizer
updates, without gathering, and loads its slices from complete tensors. So a training can resume under another ZeRO
stage, on another number of workers, or with the plain engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import deepspeed
import torch
from torch import Tensor, nn

from subgraft.config.runtime import Offload, ZeroStage
from subgraft.config.training import TrainingSettings
from subgraft.modeling.precision import autocast, faster_products
from subgraft.training.engine import Batch
from subgraft.training.objectives.compute.distributed import rank_and_world
from subgraft.training.optimizers import OPTIMIZERS, optimizer_arguments
from subgraft.training.parameter_groups import ParameterRates
from subgraft.training.tensor_shards import TensorSlice

# The elements of a gradient bucket, which take 200 MB. DeepSpeed's default takes 2 GB on every worker.
_BUCKET = 50_000_000
# Prefixes of names in a state. The prefix of a moment is the moment's name.
_PARAMETER, _UPDATES = "parameter", "updates"
_TO_CPU = {"device": "cpu"}
_OFFLOADED: Mapping[Offload, Mapping[str, Any]] = {
    "none": {},
    "optimizer": {"offload_optimizer": _TO_CPU},
    "parameters": {"offload_optimizer": _TO_CPU, "offload_param": _TO_CPU},
}
# DeepSpeed reads this table instead of probing for a compiler, so an empty one prevents it from compiling operators. On
# CPUs it would compile one, for inference only, when a process joins its group. If that process were killed, a lock
# would remain, and every later process would wait for it forever.
deepspeed.ops.__dict__["__compatible_ops__"] = {}


class DeepSpeedEngine:
    """DeepSpeed's engine behind the `Engine` protocol; the loop composes micro-batches and normalises losses."""

    def __init__(
        self,
        module: nn.Module,
        settings: TrainingSettings,
        device: torch.device,
        zero_stage: ZeroStage,
        rates: ParameterRates | None = None,
        offload: Offload = "none",
    ) -> None:
        deepspeed.init_distributed(
            dist_backend="nccl" if device.type == "cuda" else "gloo", auto_mpi_discovery=False, verbose=False
        )
        self.rank, self.world, self.device = *rank_and_world(), device
        self._stage = zero_stage
        self._module = module
        self._settings = settings
        self._moments = OPTIMIZERS[settings.optimizer].moments
        rates = rates or ParameterRates()
        rates.freeze(module)
        groups, self._group_users = split_by_users(rates.groups(module), getattr(module, "users", {}))
        self._used = set[str]()
        names = {id(parameter): name for name, parameter in module.named_parameters()}
        self._names_by_group = [[names[id(parameter)] for parameter in group["params"]] for group in groups]
        self._engine, self._optimizer, _, _ = deepspeed.initialize(
            model=module,
            model_parameters=groups,
            config=_configuration(settings, zero_stage, self.world, offload),
        )
        self._has_moments = False
        self._parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self._slices = {name: self._own_slice(parameter) for name, parameter in self._parameters.items()}
        self._inner_optimizer.register_step_pre_hook(self._skip_unused)

    def accumulate(self, batch: Batch, scale: Mapping[str, float], last: bool) -> dict[str, Tensor]:
        self._engine.set_gradient_accumulation_boundary(last)
        device, precision = self.device, self._settings.precision
        with faster_products(device, precision, batch.shape[1]):
            with autocast(device, precision):
                sums = self._engine(batch)
            # DeepSpeed averages gradients over workers. The loss is normalised by global counts, so the sum is needed.
            loss = torch.stack([scale[name] * value for name, value in sums.items()]).sum() * self.world
            self._engine.backward(loss)
        self._used |= sums.keys()
        return {name: value.detach() for name, value in sums.items()}

    def step(self, learning_rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate * group["learning_rate_factor"]
        # ZeRO 1 and 2 expect the moments of all groups as soon as the first group has been stepped.
        self._create_moments()
        self._engine.step()
        self._used.clear()

    def _skip_unused(self, *_: Any) -> None:
        """Step hook: parameters that no loss of this update used get neither an update nor weight decay."""
        for partition, group in self._groups_of_partitions():
            users = self._group_users[group]
            if users is not None and not users & self._used:
                partition.grad = None

    def probe_memory(self, batch: Batch, losses: Sequence[str], times: int) -> None:
        self._create_moments()
        for _ in range(times):
            # All weights are zero, so the gradients may stay in DeepSpeed's buffers.
            self.accumulate(batch, dict.fromkeys(losses, 0.0), last=False)
        self._used.clear()

    def state(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for name, parameter in self._parameters.items():
            for key in (_PARAMETER, *(self._moments if self._has_moments else ())):
                local = self._local_state(parameter, key)
                tensors[f"{key}.{name}"] = local if self._is_sharded else local.reshape(self._slices[name].shape)
        return tensors | self._fewer_updates()

    def _fewer_updates(self) -> dict[str, Tensor]:
        """The number of updates of parameters that had fewer than others, as in the plain engine."""
        state = self._inner_optimizer.state
        updates = {
            name: torch.tensor(float(state[partition]["step"]))
            for partition, group in (self._groups_of_partitions() if self._has_moments else ())
            for name in self._names_by_group[group]
        }
        max_updates = max(updates.values(), default=0.0)
        return {f"{_UPDATES}.{name}": count for name, count in updates.items() if count < max_updates}

    def part(self, name: str) -> TensorSlice | None:
        kind, _, parameter = name.partition(".")
        return self._slices.get(parameter) if self._is_sharded and kind != _UPDATES else None

    def load_state(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        if any(name.startswith(self._moments) for name in tensors):
            self._create_moments()
        for name, parameter in self._parameters.items():
            value = tensors[f"{_PARAMETER}.{name}"].to(self.device)
            self._local_state(parameter, _PARAMETER).copy_(self._slices[name].of(value))
            # The model's copy, which DeepSpeed updates only at the next step.
            with deepspeed.zero.GatheredParameters([parameter], modifier_rank=0, enabled=self._stage == 3):
                parameter.data.copy_(value)
            for key in self._moments:
                if f"{key}.{name}" in tensors:
                    self._local_state(parameter, key).copy_(self._slices[name].of(tensors[f"{key}.{name}"]))
        for partition, group in self._groups_of_partitions() if self._has_moments else ():
            state = self._inner_optimizer.state[partition]
            count = float(tensors.get(f"{_UPDATES}.{self._names_by_group[group][0]}", steps))
            state["step"] = torch.tensor(count) if isinstance(state["step"], Tensor) else int(count)

    @property
    def _is_sharded(self) -> bool:
        """Whether each worker updates only its own slices of the parameters."""
        return self._stage > 0 and self.world > 1

    def _own_slice(self, parameter: nn.Parameter) -> TensorSlice:
        """The slice of a parameter that this worker updates; DeepSpeed pads unequal slices."""
        shape = tuple(getattr(parameter, "ds_shape", parameter.shape))
        count = int(getattr(parameter, "ds_numel", parameter.numel()))
        if self._stage == 0:
            return TensorSlice(0, count, shape)
        if self._stage == 3:
            size = parameter.ds_tensor.ds_numel  # type: ignore[attr-defined]
            return TensorSlice(min(self.rank * size, count), min((self.rank + 1) * size, count), shape)
        if parameter._hp_mapping is None:  # type: ignore[attr-defined]
            return TensorSlice(0, 0, shape)
        fragment = parameter._hp_mapping.lp_fragment_address  # type: ignore[attr-defined]
        return TensorSlice(fragment.start, fragment.start + fragment.numel, shape)

    def _local_state(self, parameter: nn.Parameter, key: str) -> Tensor:
        """This worker's slice of a parameter or of one of its moments: flat, and not a copy."""
        moment = None if key == _PARAMETER else key
        if self._stage == 0:
            gathered_parameters = parameter if moment is None else self._optimizer.state[parameter][moment]
            return cast(Tensor, gathered_parameters.detach().reshape(-1))
        if self._stage == 3:
            # DeepSpeed's public safe_get_local_* would copy offloaded states to the device.
            state, _ = self._optimizer._get_fp32_opt_state_partition(parameter, True, moment)
            own_slice = self._own_slice(parameter)
            return cast(Tensor, state.detach()[: own_slice.stop - own_slice.start])
        mapping = parameter._hp_mapping  # type: ignore[attr-defined]
        return torch.empty(0) if mapping is None else cast(Tensor, mapping.get_hp_fragment(moment).detach())

    def gathered_parameters(self) -> AbstractContextManager[None]:
        if self._stage < 3:
            return nullcontext()
        context: AbstractContextManager[None] = deepspeed.zero.GatheredParameters(list(self._module.parameters()))
        return context

    @property
    def _inner_optimizer(self) -> Any:
        """The optimizer that ZeRO stages wrap."""
        return getattr(self._optimizer, "optimizer", self._optimizer)

    def _create_moments(self) -> None:
        """Create the optimizer state that the first step would create, so that a checkpoint can be loaded into it."""
        if self._has_moments:
            return
        for partition in self._partitions():
            moments = {key: torch.zeros_like(partition) for key in self._moments}
            self._inner_optimizer.state[partition] = {"step": torch.tensor(0.0), **moments}
        if self._stage in (1, 2):
            self._optimizer._lazy_init_hp_params_optimizer_state()
        self._has_moments = True

    def _partitions(self) -> Sequence[Tensor]:
        """The tensors that the optimizer updates: complete parameters, or this worker's slices."""
        if self._stage == 0:
            return list(self._parameters.values())
        name = "fp32_partitioned_groups_flat" if self._stage == 3 else "single_partition_of_fp32_groups"
        return cast(Sequence[Tensor], getattr(self._optimizer, name))

    def _groups_of_partitions(self) -> Iterator[tuple[Tensor, int]]:
        """Each of `_partitions` with the index of its parameter group."""
        partitions = self._partitions()
        if self._stage == 0:
            group_of = {
                id(parameter): index
                for index, group in enumerate(self._inner_optimizer.param_groups)
                for parameter in group["params"]
            }
            return ((partition, group_of[id(partition)]) for partition in partitions)
        groups = self._optimizer.sub_group_to_group_id if self._stage == 3 else range(len(partitions))
        return ((partition, groups[index]) for index, partition in enumerate(partitions))


def split_by_users(
    groups: Sequence[dict[str, Any]], users: Mapping[nn.Parameter, frozenset[str]]
) -> tuple[list[dict[str, Any]], list[frozenset[str] | None]]:
    """Split parameter groups so that the same losses use all parameters of a group.

    DeepSpeed puts the parameters of a group in one tensor, so the optimizer can only step or skip a whole group.

    Returns:
        The groups, and the names of the losses that use each of them; None if all losses do.
    """
    split, group_users = list[dict[str, Any]](), list[frozenset[str] | None]()
    for group in groups:
        by_users: dict[frozenset[str] | None, list[nn.Parameter]] = {}
        for parameter in group["params"]:
            by_users.setdefault(users.get(parameter), []).append(parameter)
        split += [group | {"params": parameters} for parameters in by_users.values()]
        group_users += by_users
    return split, group_users


def _configuration(settings: TrainingSettings, zero_stage: int, world: int, offload: Offload) -> dict[str, Any]:
    kind = OPTIMIZERS[settings.optimizer]
    # For offloaded states DeepSpeed would compile an Adam of its own. All other optimizers are PyTorch's anyway.
    torch_adam = {"torch_adam": True} if kind.can_fuse else {}
    fused = {"fused": True} if kind.can_fuse and offload != "none" else {}
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "train_batch_size": world,
        "zero_optimization": {"stage": zero_stage, "reduce_bucket_size": _BUCKET, **_OFFLOADED[offload]},
        "zero_allow_untested_optimizer": True,
        "gradient_clipping": settings.clip_norm or 0.0,
        "optimizer": {
            "type": kind.name,
            "params": {**optimizer_arguments(settings), **torch_adam, **fused},
        },
        "steps_per_print": 1_000_000_000,
    }
