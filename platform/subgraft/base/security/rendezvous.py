"""The rendezvous of the workers of a training.

PyTorch's default is a store on a TCP port of the first worker. It listens on every address of the machine, and anyone
who reaches it can change the group's state. On one machine a file store suffices.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.train.torch.config import (
    TorchConfig,
    _set_torch_distributed_env_vars,
    _setup_torch_process_group,
    _TorchBackend,
)


@dataclass
class FileTorchConfig(TorchConfig):
    """A process group of workers on one machine, whose rendezvous is a file below `folder`."""

    folder: str = ""

    @property
    def backend_cls(self) -> type[_TorchBackend]:
        return _FileBackend


class _FileBackend(_TorchBackend):
    """Ray's backend with another initialisation; backend_config is a FileTorchConfig."""

    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        store = Path(tempfile.mkdtemp(prefix="meeting-", dir=backend_config.folder)) / "store"
        worker_group.execute(_set_torch_distributed_env_vars)
        results = [
            worker_group.execute_single_async(
                rank,
                _setup_torch_process_group,
                backend=backend_config.backend,
                world_rank=rank,
                world_size=len(worker_group),
                init_method=store.as_uri(),
                timeout_s=backend_config.timeout_s,
            )
            for rank in range(len(worker_group))
        ]
        ray.get(results)
