"""Runs the batch that needs most memory before training, and suggests settings if memory does not suffice."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import torch

from subgraft.base.errors import OperationalError
from subgraft.config.runtime import Runtime
from subgraft.config.training import TrainingSettings

# Activations of a layer take 34 d bytes per token, and 5 bytes per head and pair of tokens (Korthikanti et al. 2022,
# section 4.1). For heads of 64 dimensions both are equal at this many tokens.
_TOKENS_OF_ATTENTION = 435
_OUT_OF_MEMORY = ("can't allocate memory", "could not create a primitive")
_TRIED_TO_ALLOCATE = re.compile(r"tried to allocate ([\d.]+) ?(\w+)", re.IGNORECASE)


def most_demanding(batches: Iterable[np.ndarray], lengths: np.ndarray, count: int) -> list[np.ndarray]:
    """The `count` batches (example indices) that should need most memory by their lengths, in descending order."""

    def cost(indices: np.ndarray) -> int:
        longest = int(lengths[indices].max())
        return len(indices) * longest * (_TOKENS_OF_ATTENTION + longest)

    return sorted(batches, key=cost, reverse=True)[:count]


@contextmanager
def explain_out_of_memory(
    group: str, settings: TrainingSettings, runtime: Runtime, device: torch.device, shape: tuple[int, int] | None = None
) -> Iterator[None]:
    """Raise an OperationalError when memory runs out, with the amount requested and the settings that help.

    It is not a UserError: with more memory the same command succeeds.

    Args:
        group: name of the training settings in a configuration.
        settings: the training settings.
        runtime: the runtime settings.
        device: the device that runs out of memory.
        shape: sentences and tokens of the tested batch; None before any batch.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        subject = (
            f"the largest batch, {shape[0]} sentences of {shape[1]} tokens" if shape else "the model and its optimizer"
        )
        options = "; ".join(memory_saving_options(group, settings, runtime, device, shape[0] if shape else 1))
        raise OperationalError(
            f"memory does not suffice for {subject}{_amounts(error, device)}",
            where=group,
            hint=f"What helps, the cheapest first: {options}.",
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the GPU or the machine ran out of memory. PyTorch and oneDNN report the latter only in the message."""
    message = str(error)
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(line in message for line in _OUT_OF_MEMORY)


def memory_saving_options(
    group: str, settings: TrainingSettings, runtime: Runtime, device: torch.device, sentences: int
) -> list[str]:
    """Settings that would lower the memory of this training, the cheapest first."""
    changes: list[str] = []
    if sentences > 1:
        current = settings.micro_batch_size or settings.batch_size // runtime.workers
        changes.append(f"{group}.micro_batch_size={max(1, current // 2)} (the same batches, computed in smaller parts)")
    if not runtime.activation_checkpointing:
        changes.append("runtime.activation_checkpointing=true")
    stage = runtime.zero_stage or 0
    if runtime.workers > 1:
        changes += [f"runtime.zero_stage={larger}" for larger in (2, 3) if larger > stage]
    if device.type == "cuda" and runtime.offload == "none":
        changes.append(f"runtime.zero_stage={max(stage, 2)} runtime.offload=optimizer")
    if device.type == "cuda" and runtime.offload != "parameters":
        changes.append("runtime.zero_stage=3 runtime.offload=parameters")
    changes.append(f"runtime.workers={2 * runtime.workers} runtime.zero_stage={max(stage, 2)}, with a device for each")
    if settings.precision == "fp32" and device.type == "cuda":  # many processors are slow in bf16
        changes.append(f"{group}.precision=bf16 (which changes the result a little)")
    return changes


def _amounts(error: BaseException, device: torch.device) -> str:
    """The memory that was requested and the memory that was free, as far as both are known."""
    requested = _TRIED_TO_ALLOCATE.search(str(error))
    shortage = ""
    if requested and requested[2].lower() == "bytes":
        shortage = f": {float(requested[1]) / 2**30:.2f} GiB more were requested"
    elif requested:
        shortage = f": {requested[1]} {requested[2]} more were requested"
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        shortage += f", {free / 2**30:.2f} of {total / 2**30:.2f} GiB were free"
    return shortage
