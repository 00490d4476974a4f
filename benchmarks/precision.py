"""fp32 or bf16: what `precision: auto` measures of a layer in a second, compared with whole training steps.

    python benchmarks/precision.py [--quick] [--threads 1]

Untrained Marian models of several widths on invented sentences of about 32 tokens, with the engine, the loss and the
way of attention that a training has. As there each batch has another shape, for which products in bf16 are prepared
again. Both precisions take turns, so read the ratios.
"""

from __future__ import annotations

import random
import statistics
import time
from typing import cast, get_args

import torch
from transformers import MarianConfig, MarianMTModel

from measurements import in_environment_of_runs, measurements, options
from subgraft.config.training import NamedPrecision, TrainingSettings
from subgraft.modeling.precision import LayerShape, faster_precision, fuses_attention
from subgraft.training.engine import PlainEngine
from subgraft.training.objectives.compute.seq2seq import Seq2SeqBatch, Seq2SeqLoss

# Width, layers of each side.
MODELS = ((128, 2), (256, 3), (512, 6))
VOCABULARY, SENTENCES, LENGTH = 8000, 64, 32
CPU = torch.device("cpu")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    args = parser.parse_args()
    in_environment_of_runs()
    torch.set_num_threads(args.threads)
    with measurements(__doc__, args) as table:
        for width, layers in MODELS[: 2 if args.quick else None]:
            network = model(width, layers)
            measured = faster_precision(LayerShape.of(network), CPU)
            steps = _steps(network, args.steps)
            table.add(
                f"width {width}, {layers} + {layers} layers",
                layer_bf16_to_fp32=measured.seconds["bf16"] / measured.seconds["fp32"],
                step_fp32=steps["fp32"],
                step_bf16=steps["bf16"],
                step_bf16_to_fp32=steps["bf16"] / steps["fp32"],
                auto=measured.precision,
            )


def model(width: int, layers: int, tokens: int = LENGTH) -> MarianMTModel:
    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=width // 64,
        decoder_attention_heads=width // 64,
        encoder_ffn_dim=4 * width,
        decoder_ffn_dim=4 * width,
        max_position_embeddings=2 * tokens,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
    )
    return MarianMTModel(config)


def batch_of(sentences: int, tokens: int = LENGTH, source_tokens: int | None = None) -> Seq2SeqBatch:
    source = torch.randint(2, VOCABULARY, (sentences, source_tokens or tokens))
    ids = torch.randint(2, VOCABULARY, (sentences, tokens))
    return Seq2SeqBatch(source, torch.ones_like(source), ids, ids)


def pass_both_ways(network: MarianMTModel, sentences: int) -> None:
    """Forward and back in fp32, without an update."""
    torch.autograd.backward(Seq2SeqLoss(network, 0.1)(batch_of(sentences))["loss"])
    network.zero_grad()


def _steps(network: MarianMTModel, count: int) -> dict[NamedPrecision, float]:
    """Median seconds of an update, after one that warms up."""
    drawn = random.Random(1)
    names = cast(tuple[NamedPrecision, ...], get_args(NamedPrecision))
    engines = {}
    for name in names:
        settings = TrainingSettings(max_steps=1, batch_size=1, learning_rate=1e-4, warmup_steps=1, precision=name)
        engines[name] = PlainEngine(Seq2SeqLoss(network, 0.1), settings, CPU)
    seconds: dict[NamedPrecision, list[float]] = {name: [] for name in names}
    for _ in range(1 + count):
        batch = batch_of(*(round(drawn.uniform(0.8, 1.2) * size) for size in (SENTENCES, LENGTH, LENGTH)))
        for name, engine in engines.items():
            network.set_attn_implementation("sdpa" if fuses_attention(CPU, name) else "eager")
            begun = time.perf_counter()
            engine.accumulate(batch, {"loss": 1 / batch.labels.numel()}, last=True)
            engine.step(1e-4)
            seconds[name].append(time.perf_counter() - begun)
    return {name: statistics.median(taken[1:]) for name, taken in seconds.items()}


if __name__ == "__main__":
    main()
