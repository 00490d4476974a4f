"""fp32 by MKL or by oneDNN: whole updates, with the attention that suits each.

    python benchmarks/products.py [--quick] [--threads 1]

Untrained Marian models on invented sentences, forward, back and an update. As in a training each batch has another
shape, for which oneDNN generates new code; all ways take turns at the same batches, so read the ratios. `ours` is what
a training has: on processors that oneDNN does not suit it is what PyTorch chooses.
"""

from __future__ import annotations

import random
import time
from contextlib import AbstractContextManager, nullcontext
from unittest.mock import patch

import torch
from transformers import MarianMTModel

from measurements import measurements, options
from precision import batch_of, model
from subgraft.config.training import TrainingSettings
from subgraft.modeling import precision as products
from subgraft.modeling.precision import LONGEST_PLAIN, faster_products
from subgraft.training.engine import PlainEngine
from subgraft.training.objectives.compute.seq2seq import Seq2SeqLoss

# Width and layers of each side, sentences, tokens of each; about so many, within a fifth.
SHAPES = ((128, 2, 100, 20), (128, 2, 32, 64), (256, 3, 8, 256), (256, 3, 2, 1024), (512, 6, 32, 32))
CPU = torch.device("cpu")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with measurements(__doc__, args) as table:
        ours = faster_products(CPU, "fp32", LONGEST_PLAIN)
        table.add("a product, 10⁹ operations a second", pytorch=_rate(nullcontext()), ours=_rate(ours))
        for width, layers, sentences, tokens in SHAPES[: 3 if args.quick else None]:
            seconds = _updates(model(width, layers, tokens), sentences, tokens, args.steps)
            name = f"width {width}, {layers} + {layers} layers, {sentences} × {tokens} tokens"
            ratios = {f"{way}_to_pytorch": value / seconds["pytorch"] for way, value in seconds.items()}
            ratios.pop("pytorch_to_pytorch")
            table.add(name, pytorch_seconds=seconds["pytorch"], **ratios)


def _rate(way: AbstractContextManager[None]) -> float:
    """Billions of operations in a CPU second of [2048, 512] by [512, 2048]."""
    left, right = torch.randn(2048, 512), torch.randn(512, 2048)
    best = float("inf")
    with way:
        for _ in range(20):
            begun = time.process_time()
            left @ right
            best = min(best, time.process_time() - begun)
    return 2 * 2048 * 512 * 2048 / best / 1e9


def _updates(network: MarianMTModel, sentences: int, tokens: int, count: int) -> dict[str, float]:
    """CPU seconds of an update, on average, after one that warms up."""
    settings = TrainingSettings(max_steps=1, batch_size=1, learning_rate=1e-4, warmup_steps=1)
    engine, drawn = PlainEngine(Seq2SeqLoss(network, 0.1), settings, CPU), random.Random(1)
    ways: dict[str, AbstractContextManager[object]] = {
        "pytorch": patch.object(products, "_onednn_is_faster", lambda: False),
        "ours": nullcontext(),  # before the others, whose code for these shapes would serve it too
        "fused_by_onednn": patch.object(products, "LONGEST_PLAIN", 0),
        "plain_by_onednn": patch.object(products, "LONGEST_PLAIN", 2 * tokens),
    }
    seconds = dict.fromkeys(ways, 0.0)
    for number in range(1 + count):
        shape = [round(drawn.uniform(0.8, 1.2) * size) for size in (sentences, tokens)]
        batch = batch_of(*shape)
        for name, way in ways.items():
            with way:
                begun = time.process_time()
                engine.accumulate(batch, {"loss": 1 / batch.labels.numel()}, last=True)
                engine.step(1e-4)
                seconds[name] += (time.process_time() - begun) if number else 0.0
    return {name: taken / count for name, taken in seconds.items()}


if __name__ == "__main__":
    main()
