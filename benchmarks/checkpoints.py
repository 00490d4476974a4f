"""How long a training stands still for its checkpoints: written while it waits, and in the background.

    python benchmarks/checkpoints.py [--parameters 40000000] [--updates 24] [--every 6] [--place FOLDER]

The same updates of a stack of linear layers three times: without checkpoints, with those that it waits for, and with
those written from a copy. Each of the two ways is compared with updates without any, in turn, in one process.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from measurements import measurements, options
from subgraft.config.training import TrainingSettings
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.checkpoint_writer import CheckpointWriter
from subgraft.training.engine import PlainEngine

WIDTH = 1024
SETTINGS = TrainingSettings(max_steps=1, batch_size=1, learning_rate=1e-4, warmup_steps=1, precision="fp32")


@dataclass(frozen=True)
class Rows:
    """Inputs [n, WIDTH]."""

    inputs: Tensor

    @property
    def counts(self) -> Mapping[str, int]:
        return {"loss": len(self.inputs)}

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.inputs), WIDTH

    def to(self, device: torch.device | str) -> Rows:
        return Rows(self.inputs.to(device))


class Stack(nn.Module):
    def __init__(self, parameters: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        count = max(1, parameters // (WIDTH * WIDTH))
        self.layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(count)))

    def forward(self, batch: Rows) -> dict[str, Tensor]:
        return {"loss": self.layers(batch.inputs).square().sum()}


@dataclass(frozen=True)
class Taken:
    """Seconds of all updates, and for which each checkpoint stopped the training."""

    updates: float
    waits: list[float]

    @property
    def seconds(self) -> float:
        return self.updates + sum(self.waits)


def taken(parameters: int, updates: int, every: int, place: Path, background: bool | None) -> Taken:
    """Of so many updates with a checkpoint after `every` so many; background None: with none at all."""
    engine = PlainEngine(Stack(parameters), SETTINGS, torch.device("cpu"))
    batch = Rows(torch.randn(256, WIDTH, generator=torch.Generator().manual_seed(1)))
    engine.probe_memory(batch, ["loss"], 1)
    writer = CheckpointWriter(Checkpoints(place), engine, 1e9, bool(background))
    writer.reserve(engine.state(), {})
    seconds, waits = 0.0, []
    with writer:
        for step in range(1, updates + 1):
            started = time.perf_counter()
            engine.accumulate(batch, {"loss": 1e-6}, last=True)
            engine.step(1e-4)
            seconds += time.perf_counter() - started
            if background is None or step % every:
                continue
            started = time.perf_counter()
            writer.due(force=True)
            writer.write(step, engine.state(), {}, {}, {})
            waits.append(time.perf_counter() - started)
        started = time.perf_counter()
        writer.finish()
        if waits:
            waits[-1] += time.perf_counter() - started
    return Taken(seconds, waits)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--parameters", type=int, default=40_000_000)
    parser.add_argument("--updates", type=int, default=24)
    parser.add_argument("--every", type=int, default=6)
    parser.add_argument("--place", type=Path, help="a folder on the disk to be measured; the system's for such files")
    args = parser.parse_args()
    parameters, updates, every = args.parameters, args.updates, args.every
    if args.quick:
        parameters, updates, every = 10_000_000, 16, 4
    with measurements(__doc__, args) as table, tempfile.TemporaryDirectory(dir=args.place) as folder:
        for name, background in (("training waits", False), ("in the background", True)):
            without = taken(parameters, updates, every, Path(folder) / "none", None)
            times = taken(parameters, updates, every, Path(folder) / name, background)
            table.add(
                name,
                MB=12 * parameters / 1e6,
                update_seconds=without.updates / updates,
                stands_still=statistics.median(times.waits[:-1]),
                waits_at_end=times.waits[-1],
                updates_ratio=times.updates / without.updates,
                beside_none=times.seconds / without.seconds,
                share=1 - without.seconds / times.seconds,
            )


if __name__ == "__main__":
    main()
