"""Engines of the training loop: their protocol, and plain PyTorch; DeepSpeed is in `deepspeed_engine`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from subgraft.base.errors import UserError
from subgraft.config.training import TrainingSettings
from subgraft.modeling.precision import autocast, faster_products
from subgraft.training.gradient_all_reduce import GradientAllReduce
from subgraft.training.objectives.compute.distributed import rank_and_world
from subgraft.training.optimizers import OPTIMIZERS, make_optimizer
from subgraft.training.parameter_groups import ParameterRates
from subgraft.training.rare_rows import RowUpdates
from subgraft.training.tensor_shards import TensorSlice


class Batch(Protocol):
    """A batch. counts: the number of items over which each loss is summed, known before the loss is computed."""

    @property
    def counts(self) -> Mapping[str, int]: ...

    @property
    def shape(self) -> tuple[int, int]:
        """The number of sentences and the length of the longest one on either side, which determine memory use."""
        ...

    def to(self, device: torch.device | str) -> Batch: ...


class Engine(Protocol):
    """Computes gradients and optimizer steps on one of `world` workers. States of all engines have the same names."""

    rank: int
    world: int
    device: torch.device

    def accumulate(self, batch: Batch, scale: Mapping[str, float], last: bool) -> dict[str, Tensor]:
        """Add the gradient of sum(scale x loss) of one micro-batch, and return the sum of each loss.

        The sums stay on the device: to read them waits for all that the device has still to compute.

        Args:
            batch: the micro-batch.
            scale: the factor of each loss.
            last: whether it is the last micro-batch before the optimizer step.
        """
        ...

    def step(self, learning_rate: float) -> None: ...

    def probe_memory(self, batch: Batch, losses: Sequence[str], times: int) -> None:
        """Allocate everything that a step needs: optimizer state, gradients and activations.

        It is called before the first step and does not change the result of the training.

        Args:
            batch: the batch that is computed.
            losses: the names of the losses.
            times: how often the gradients of the batch are accumulated.
        """
        ...

    def state(self) -> dict[str, Tensor]:
        """Trainable parameters and optimizer state (`exp_avg.NAME` etc.), which the next step changes in place.

        `updates.NAME` is present for a parameter that had fewer updates than the training had steps. A tensor for
        which `part` returns a slice is flat and holds only this worker's slice.
        """
        ...

    def part(self, name: str) -> TensorSlice | None:
        """The slice of a state tensor that this worker holds; None if every worker holds the complete tensor."""
        ...

    def load_state(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        """Load the complete tensors of a state of any engine. All workers access the same names in the same order."""
        ...

    def gathered_parameters(self) -> AbstractContextManager[None]:
        """Context in which every worker has the module's complete parameters."""
        ...


def add_up(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sums of named values."""
    total: dict[str, float] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total


def read_values(parts: Sequence[Mapping[str, Tensor]]) -> list[dict[str, float]]:
    """Named values of a device as numbers, by one copy: each copy waits for the device."""
    tensors = [value for part in parts for value in part.values()]
    numbers = iter(torch.stack([tensor.double() for tensor in tensors]).tolist() if tensors else ())
    return [{name: next(numbers) for name in part} for part in parts]


def sum_over_workers(values: Mapping[str, float], names: Sequence[str], engine: Engine) -> dict[str, float]:
    """Sums of named values over all workers."""
    if engine.world == 1:
        return dict(values)
    tensor = torch.tensor([values.get(name, 0.0) for name in names], dtype=torch.float64)
    tensor = tensor.to(engine.device)
    dist.all_reduce(tensor)
    return dict(zip(names, tensor.tolist(), strict=True))


def recompute_activations(model: nn.Module) -> None:
    """Activation checkpointing: drop the layers' activations and recompute them in the backward pass.

    Raises UserError for a model of transformers that cannot, such as an XLNet.
    """
    try:
        model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
    except ValueError as error:
        hint = "Leave it out, or train with smaller micro-batches."
        raise UserError(str(error), where="runtime.activation_checkpointing", hint=hint) from error


class PlainEngine:
    """PyTorch with optional bf16 autocast; gradients are summed over workers.

    Args:
        module: maps a batch to named sums of losses.
        settings: the training settings.
        device: where the module is.
        rates: learning rates of parameter groups.
        row_updates: the rows whose updates are regularised (`rare_rows`).
    """

    def __init__(
        self,
        module: nn.Module,
        settings: TrainingSettings,
        device: torch.device,
        rates: ParameterRates | None = None,
        row_updates: Sequence[RowUpdates] = (),
    ) -> None:
        self.rank, self.world = rank_and_world()
        self.device = device
        self._module = module
        self._settings = settings
        rates = rates or ParameterRates()
        rates.freeze(module)
        self._parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self._all_reduce = GradientAllReduce(list(self._parameters.values())) if self.world > 1 else None
        self._moments = OPTIMIZERS[settings.optimizer].moments
        self._optimizer = make_optimizer(settings, rates.groups(module))
        self._row_updates = [each.to(device) for each in row_updates if each.table.requires_grad]

    def accumulate(self, batch: Batch, scale: Mapping[str, float], last: bool) -> dict[str, Tensor]:
        device, precision = self.device, self._settings.precision
        with faster_products(device, precision, batch.shape[1]):
            with autocast(device, precision):
                sums = self._module(batch)
            with self._all_reduce.sending() if last and self._all_reduce else nullcontext():
                torch.autograd.backward(torch.stack([scale[name] * value for name, value in sums.items()]).sum())
        return {name: value.detach() for name, value in sums.items()}

    def step(self, learning_rate: float) -> None:
        if self._all_reduce:
            self._all_reduce.wait()
        if self._settings.clip_norm is not None:
            nn.utils.clip_grad_norm_(self._parameters.values(), self._settings.clip_norm)
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate * group["learning_rate_factor"]
        rows_before = [updates.current_rows() for updates in self._row_updates]
        self._optimizer.step()
        for updates, rows in zip(self._row_updates, rows_before, strict=True):
            groups = self._optimizer.param_groups
            rate = next(group["lr"] for group in groups if any(updates.table is each for each in group["params"]))
            updates.apply(rows, float(rate))
        self._optimizer.zero_grad(set_to_none=True)

    def probe_memory(self, batch: Batch, losses: Sequence[str], times: int) -> None:
        for parameter in self._parameters.values():
            # This is the state that the optimizer would create in its first step.
            moments = {key: torch.zeros_like(parameter) for key in self._moments}
            self._optimizer.state[parameter] = {"step": torch.tensor(0.0, device=self.device), **moments}
        for _ in range(times):
            self.accumulate(batch, dict.fromkeys(losses, 0.0), last=False)
        self._optimizer.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        tensors = {f"parameter.{name}": p.detach() for name, p in self._parameters.items()}
        for name, parameter in self._parameters.items():
            for key in self._moments:
                if key in self._optimizer.state.get(parameter, {}):
                    tensors[f"{key}.{name}"] = self._optimizer.state[parameter][key]
        # The update counts of parameters with fewer updates than others, because not every batch used them.
        state = self._optimizer.state
        updates = {name: state[parameter]["step"] for name, parameter in self._parameters.items() if parameter in state}
        (counts,) = read_values([updates])
        most = max(counts.values(), default=0.0)
        return tensors | {f"updates.{name}": count for name, count in updates.items() if counts[name] < most}

    def part(self, name: str) -> TensorSlice | None:
        del name
        return None

    def load_state(self, tensors: Mapping[str, Tensor], steps: int) -> None:
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(tensors[f"parameter.{name}"])
                if f"exp_avg.{name}" in tensors:
                    moments = {key: tensors[f"{key}.{name}"].to(self.device).clone() for key in self._moments}
                    step = tensors.get(f"updates.{name}", torch.tensor(float(steps))).to(self.device).clone()
                    self._optimizer.state[parameter] = {"step": step, **moments}

    def gathered_parameters(self) -> AbstractContextManager[None]:
        return nullcontext()
