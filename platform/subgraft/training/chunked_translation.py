"""Translations of many lines in chunks, which several workers share and a restarted step does not repeat."""

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
from subgraft.config.settings_base import TranslationEngine
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.exporting.ctranslate2 import fast_translator
from subgraft.modeling.inference.translate import Translator, translator_of
from subgraft.training.context import Context
from subgraft.training.objectives.compute.distributed import rank_and_world
from subgraft.training.objectives.compute.translation import DEV_LENGTH_RATIO
from subgraft.training.setup import device

# Sentences per file of translations; a killed step loses at most one file per worker.
CHUNK = 500
# Sentences per sampled batch. It is constant, since a sample depends on the other sentences of its batch.
SAMPLING_BATCH_SIZE = 64


@dataclass(frozen=True)
class Translations:
    """Translations in the order of their sources, the number of unfinished ones, and the seconds of all workers."""

    texts: list[str]
    unfinished: int
    seconds: float


@dataclass(frozen=True)
class Search:
    """How lines are translated.

    Attributes:
        beam: Hypotheses of the search; None samples tokens, each chunk with a seed derived from `seed`.
        max_length_ratio: Bytes of a translation per byte of its source.
        batch_size: Sentences per batch of the search.
        seed: Of sampling.
        engine: Of the search; only transformers samples, or restricts tokens.
        tokens: Ids of the tokens that may be generated, besides special ones; None for all.
    """

    beam: int | None
    max_length_ratio: float = DEV_LENGTH_RATIO
    batch_size: int = 32
    seed: int | None = None
    engine: TranslationEngine = "transformers"
    tokens: frozenset[int] | None = None

    def translator(self, bundle: Bundle, languages: Languages) -> Translator:
        """The translator of these settings, on the GPU if there is one."""
        bundle.model.to(device())  # type: ignore[arg-type]
        if self.engine == "ctranslate2" and self.beam is not None and self.tokens is None:
            return fast_translator(bundle, languages, beam=self.beam, max_length_ratio=self.max_length_ratio)
        ratio = self.max_length_ratio
        return translator_of(bundle, languages, beam=self.beam, max_length_ratio=ratio, tokens=self.tokens)


def translate_in_chunks(
    bundle: Bundle, sources: Sequence[str], languages: Languages, search: Search, context: Context, part: str
) -> Translations:
    """Translate in chunks; chunks that are in the step's work directory are not repeated.

    Several workers divide the chunks, which do not depend on the number of workers.

    Args:
        bundle: The model.
        sources: Lines to translate.
        languages: From source to target.
        search: How they are translated.
        context: Of the step.
        part: Names the files of the chunks.
    """
    folder = context.work / "translations" / part
    folder.mkdir(parents=True, exist_ok=True)
    chunks = [sources[start : start + CHUNK] for start in range(0, len(sources), CHUNK)]
    files = [folder / f"{number:06d}.json" for number in range(len(chunks))]
    rank, world = rank_and_world()
    translate = search.translator(bundle, languages)
    for number in range(rank, len(chunks), world):
        if not files[number].exists():
            if search.beam is None:
                translations = _sample(translate, chunks[number], [search.seed or 0, number])
            else:
                translations = _translate(translate, chunks[number], search.batch_size)
            _save_chunk(translations, files[number])
        context.progress(min((number + 1) * CHUNK, len(sources)), len(sources), "sentences translated")
    if world > 1:
        dist.barrier()
    translated = [Translations(**json.loads(file.read_text(encoding="utf-8"))) for file in files]
    texts = [text for chunk in translated for text in chunk.texts]
    return Translations(
        texts, sum(chunk.unfinished for chunk in translated), sum(chunk.seconds for chunk in translated)
    )


def _sample(translate: Translator, sources: Sequence[str], seeds: Sequence[int]) -> Translations:
    """Sample translations with these seeds, without changing the global random state."""
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.default_rng(seeds).integers(2**63)))
        return _translate(translate, sources, SAMPLING_BATCH_SIZE)


def _translate(translate: Translator, sources: Sequence[str], batch_size: int) -> Translations:
    started = time.monotonic()
    texts = translate(sources, batch_size)
    return Translations(texts, translate.unfinished, time.monotonic() - started)


def _save_chunk(chunk: Translations, file: Path) -> None:
    """Write to a partial file and rename it, so that existing files are complete."""
    partial_file = file.with_suffix(".partial")
    partial_file.write_text(json.dumps(asdict(chunk), ensure_ascii=False), encoding="utf-8")
    sync(partial_file)
    partial_file.replace(file)
