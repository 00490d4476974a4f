"""Sums gradients over workers in buckets, overlapped with the backward pass (Li et al., VLDB 2020).

PyTorch's DistributedDataParallel averages gradients and wraps the module. Here losses are normalised by global counts,
so gradients are summed. A parameter that no worker has used gets no gradient, because Adam and weight decay would
change it even with a gradient of zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor, nn

# As in PyTorch: large enough to use the bandwidth of the network, small enough to send the first bucket early.
BUCKET_BYTES = 25 << 20


@dataclass(eq=False)
class _Bucket:
    """Parameters of one dtype whose gradients are sent together; `missing` of them are not ready yet."""

    parameters: list[nn.Parameter] = field(default_factory=list)
    missing: int = 0

    def send(self) -> dist.Work:
        """Replace the gradients by views of one flat tensor, and start its all-reduce."""
        pieces = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        flat = torch.cat([piece.reshape(-1) for piece in pieces])
        parts = torch.split(flat, [p.numel() for p in self.parameters])
        for parameter, part in zip(self.parameters, parts, strict=True):
            parameter.grad = part.view_as(parameter)
        work: dist.Work = dist.all_reduce(flat, async_op=True)
        return work


class GradientAllReduce:
    """Sums the gradients of the trained parameters over workers. All workers must pass them in the same order."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._buckets = _buckets(self._parameters)
        self._bucket_index = {
            parameter: index for index, bucket in enumerate(self._buckets) for parameter in bucket.parameters
        }
        self._sent = len(self._buckets)  # nothing to send
        self._used: set[nn.Parameter] = set()
        self._pending: list[dist.Work] = []
        self._flags = torch.zeros(0)
        for parameter in self._parameters:
            parameter.register_post_accumulate_grad_hook(self._on_gradient_ready)  # type: ignore[no-untyped-call]

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Context of the last backward pass before a step: sends each bucket as soon as it is ready."""
        self._used = {parameter for parameter in self._parameters if parameter.grad is not None}
        for bucket in self._buckets:
            bucket.missing = len(bucket.parameters)
        self._sent = 0
        yield
        # Send the rest now, because all workers must call collectives in the same order.
        while self._sent < len(self._buckets):
            self._send_next()
        flags = [parameter in self._used for parameter in self._parameters]
        self._flags = torch.tensor(flags, dtype=torch.int32, device=self._parameters[0].device)
        self._pending.append(dist.all_reduce(self._flags, op=dist.ReduceOp.MAX, async_op=True))

    def wait(self) -> None:
        """Wait for the sums, and remove the gradients of parameters that no worker used, as on a single worker."""
        for work in self._pending:
            work.wait()
        self._pending.clear()
        for parameter, used in zip(self._parameters, self._flags.tolist(), strict=True):
            if not used:
                parameter.grad = None

    def _on_gradient_ready(self, parameter: Tensor) -> None:
        """Hook that runs when a gradient is complete. Buckets are sent in the same order on every worker."""
        if self._sent == len(self._buckets):
            return
        assert isinstance(parameter, nn.Parameter)
        self._used.add(parameter)
        self._buckets[self._bucket_index[parameter]].missing -= 1
        while self._sent < len(self._buckets) and not self._buckets[self._sent].missing:
            self._send_next()

    def _send_next(self) -> None:
        self._pending.append(self._buckets[self._sent].send())
        self._sent += 1


def _buckets(parameters: Sequence[nn.Parameter]) -> list[_Bucket]:
    """Buckets from the last parameters to the first, the order of the backward pass."""
    buckets: list[_Bucket] = []
    free_bytes = 0
    for parameter in reversed(parameters):
        size = parameter.numel() * parameter.element_size()
        if not buckets or size > free_bytes or buckets[-1].parameters[0].dtype != parameter.dtype:
            buckets.append(_Bucket())
            free_bytes = BUCKET_BYTES
        buckets[-1].parameters.append(parameter)
        free_bytes -= size
    return buckets
