"""One worker of a small pretraining: `engine_worker.py ENGINE OUT STOP`; RANK and WORLD_SIZE as torchrun sets them.

Trains STEPS steps, or dies before step STOP + 1, and a rerun in OUT carries on. Writes rank 0's losses per step and
the final weights to OUT. ENGINE: plain, or zero0 to zero3.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file

from subgraft.config import Languages, TrainingSettings
from subgraft.models.build import build_marian
from subgraft.models.conditioning import conditioning
from subgraft.objectives.seq2seq import Seq2SeqData, Seq2SeqLoss
from subgraft.objectives.translation import Translation
from subgraft.training.checkpoint import Checkpoints
from subgraft.training.engine import Engine, PlainEngine
from subgraft.training.loop import Hooks, Trainer
from toys import SHAPE, english, english_tokenizer, german, german_tokenizer

STEPS = 6


def main(kind: str, out: Path, stop: int) -> None:
    torch.set_num_threads(1)
    settings = TrainingSettings(
        max_steps=STEPS, batch_size=160, micro_batch_size=60, learning_rate=0.01, warmup_steps=4, precision="fp32"
    )
    source, target = english_tokenizer(), german_tokenizer()
    form = conditioning("marian", source, target, Languages(source="en", target="de"))
    examples = Translation(list(zip(english(120), german(120), strict=True)), source, target, form, max_length=40)
    shape = SHAPE | {"dropout": 0.0}
    model = build_marian(source, target, seed=1, **shape)
    module = Seq2SeqLoss(model, 0.1)
    losses: dict[int, float] = {}

    def metrics(step: int, values: Mapping[str, float]) -> None:
        losses[step] = values["train_loss"]

    engine = _engine(kind, module, settings)
    data = Seq2SeqData(examples, source.special["pad"], target.special["pad"])
    checkpoints = Checkpoints(out / "checkpoints")
    hooks = Hooks(metrics=metrics)
    trainer = Trainer(
        module, {"loss": 1.0}, data, settings, engine, checkpoints, seed=3, checkpoint_seconds=1e-9, hooks=hooks
    )
    take_step = engine.step

    def step_or_die(learning_rate: float) -> None:
        if trainer._progress.step == stop:
            if losses:  # rank 0's
                (out / f"losses-{stop}.json").write_text(json.dumps(losses))
            os._exit(0)
        take_step(learning_rate)

    engine.step = step_or_die  # type: ignore[method-assign]
    trainer.run()
    tensors = {name: tensor.contiguous().clone() for name, tensor in engine.state().items()}
    if engine.rank == 0:
        (out / f"losses-{stop}.json").write_text(json.dumps(losses))
        save_file(tensors, out / "final.safetensors")
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def _engine(kind: str, module: Seq2SeqLoss, settings: TrainingSettings) -> Engine:
    device = torch.device("cpu")
    if kind == "plain":
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            dist.init_process_group("gloo")
        return PlainEngine(module, settings, device)
    from subgraft.training.deepspeed_engine import DeepSpeedEngine

    return DeepSpeedEngine(module, settings, device, int(kind.removeprefix("zero")))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
