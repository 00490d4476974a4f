"""A model's translations of many lines, for stages that use them in place of references."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from subgraft.base.files import sync
from subgraft.config.corpora import Languages
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.translate import Translator
from subgraft.training.context import Context
from subgraft.training.objectives.dev_scores import DEV_LENGTH_RATIO
from subgraft.training.objectives.distributed import rank_and_world
from subgraft.training.setup import device

# What is kept at a time: so much is lost when a step is killed.
CHUNK = 500
# So many are drawn at once, since a draw depends on what is drawn beside it.
DRAWN_AT_ONCE = 64


@dataclass(frozen=True)
class Translations:
    """Translations in the order of their sources, how many were cut at their limit, and the seconds of all workers."""

    texts: list[str]
    cut: int
    seconds: float


def self_translations(
    bundle: Bundle,
    sources: Sequence[str],
    languages: Languages,
    beam: int | None,
    context: Context,
    part: str,
    *,
    max_length_ratio: float = DEV_LENGTH_RATIO,
    batch_size: int = 32,
    seed: int | None = None,
) -> Translations:
    """Translate in chunks; chunks in the step's work directory are not made again.

    Several workers divide the chunks, which do not depend on the number of workers.

    Args:
        bundle: The model.
        sources: Lines to translate.
        languages: From source to target.
        beam: Hypotheses of the search; None samples tokens, each chunk with a seed derived from `seed`.
        context: Of the step.
        part: Names the files of the chunks.
        max_length_ratio: Bytes of a translation per byte of its source.
        batch_size: Sentences that are searched at once.
        seed: Of sampling.
    """
    folder = context.work / "translations" / part
    folder.mkdir(parents=True, exist_ok=True)
    chunks = [sources[start : start + CHUNK] for start in range(0, len(sources), CHUNK)]
    files = [folder / f"{number:06d}.json" for number in range(len(chunks))]
    rank, world = rank_and_world()
    translate = _translator(bundle, languages, beam, max_length_ratio)
    for number in range(rank, len(chunks), world):
        if not files[number].exists():
            if beam is None:
                made = _drawn(translate, chunks[number], _seed_of(seed or 0, number))
            else:
                made = _translated(translate, chunks[number], batch_size)
            _keep(made, files[number])
        context.progress(min((number + 1) * CHUNK, len(sources)), len(sources), "sentences translated")
    if world > 1:
        dist.barrier()
    found = [Translations(**json.loads(file.read_text(encoding="utf-8"))) for file in files]
    texts = [text for chunk in found for text in chunk.texts]
    return Translations(texts, sum(chunk.cut for chunk in found), sum(chunk.seconds for chunk in found))


def _translator(bundle: Bundle, languages: Languages, beam: int | None, max_length_ratio: float) -> Translator:
    return Translator(
        bundle.model.to(device()),  # type: ignore[arg-type]
        bundle.encoder,
        bundle.decoder,
        bundle.sequence_format(languages),
        beam=beam,
        max_length_ratio=max_length_ratio,
        max_positions=bundle.max_positions,
    )


def _drawn(translate: Translator, sources: Sequence[str], seed: int) -> Translations:
    """As drawn from that seed; whatever else draws goes on as if nothing had been drawn."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return _translated(translate, sources, DRAWN_AT_ONCE)


def _seed_of(seed: int, chunk: int) -> int:
    return int(np.random.default_rng([seed, chunk]).integers(2**63))


def _translated(translate: Translator, sources: Sequence[str], batch_size: int) -> Translations:
    started = time.monotonic()
    texts = translate(sources, batch_size)
    return Translations(texts, translate.cut, time.monotonic() - started)


def _keep(chunk: Translations, file: Path) -> None:
    """Write to a partial file and rename it, so that existing files are complete."""
    beside = file.with_suffix(".partial")
    beside.write_text(json.dumps(asdict(chunk), ensure_ascii=False), encoding="utf-8")
    sync(beside)
    beside.replace(file)
