"""How long a fit's trainings will take: as this machine took for such trainings before, or for one update just now."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from subgraft.config.runtime import Runtime
from subgraft.config.training import TrainingSettings
from subgraft.estimates.estimate import Estimate
from subgraft.models.families import family_of
from subgraft.models.hub import read_config
from subgraft.models.parameter_count import vocabulary_sizes

# Tokens of one sentence of the update that is timed.
LENGTH = 32


def training_seconds(
    found: Sequence[Estimate], runtime: Runtime, cores: int, model: Path, tokens_per_character: float
) -> float | None:
    """Of all trainings together, side by side as far as cores and GPUs go; None where nothing is known.

    model: one to time an update of.  tokens_per_character: of the target text, under its vocabulary.
    """
    if not found:
        return 0.0
    settings = found[0].step.recipe.training
    unknown = any(each.pace is None for each in found)
    timed = _timed_update(model, settings, runtime, tokens_per_character) if unknown else None
    total = 0.0
    for each in found:
        seconds = timed if each.pace is None else each.pace.seconds
        if seconds is None or each.workload.updates is None:
            return None
        total += each.workload.updates * seconds
    at_once = 1 if runtime.gpus_per_worker else max(1, cores // runtime.cpus_per_step)
    return total / min(at_once, len(found))


def _timed_update(
    model: Path, settings: TrainingSettings, runtime: Runtime, tokens_per_character: float
) -> float | None:
    """Seconds of one update on invented sentences, the second of two; None for a model that must be made first."""
    if not family_of(read_config(model)).generates:
        return None
    import torch

    from subgraft.models.bundle import Bundle
    from subgraft.models.precision import LayerShape, autocast, faster_precision, fuses_attention
    from subgraft.models.products import faster_products

    device = torch.device("cuda" if runtime.gpus_per_worker else "cpu")
    network = Bundle.load(model).model.to(device).train()  # type: ignore[arg-type]
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.0)
    sentences = max(1, round(settings.batch_size * tokens_per_character / LENGTH))
    drawn = torch.Generator().manual_seed(1)
    known = min(vocabulary_sizes(read_config(model)).values())
    ids = torch.randint(known, (sentences, LENGTH), generator=drawn).to(device)
    threads = torch.get_num_threads()
    torch.set_num_threads(runtime.cpus_per_step)
    try:
        seconds, precision = 0.0, settings.precision
        if precision == "auto":
            precision = faster_precision(LayerShape.of(network), device).precision
        if not fuses_attention(device, precision):
            network.set_attn_implementation("eager")
        for _ in range(2):
            begun = time.perf_counter()
            with faster_products(device, precision, LENGTH):
                with autocast(device, precision):
                    loss = network(input_ids=ids, labels=ids).loss
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            float(loss.detach())  # waits for a GPU
            seconds = time.perf_counter() - begun
        return seconds
    finally:
        torch.set_num_threads(threads)
