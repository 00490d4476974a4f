"""Embeddings of new tokens by likelihood matching, on references or on the model's own translations."""

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
from subgraft.config.settings_base import SideName, Split
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.distilled_rows import DistilledRows, origin
from subgraft.embeddings.learned_rows.likelihood_matching_loss import LikelihoodMatchingLoss, SpanPairs, StudentTables
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.heads import require_token_head
from subgraft.modeling.inference.translate import Translator
from subgraft.modeling.sides import side as side_of
from subgraft.pipeline.recipes.embeddings import LikelihoodMatchingRecipe
from subgraft.pipeline.stages.stage import Inputs, Summary
from subgraft.pipeline.stages.token_distillation import fit_rows
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context, Json
from subgraft.training.objectives.distributed import rank_and_world
from subgraft.training.objectives.translation import DEV_LENGTH_RATIO
from subgraft.training.setup import device, is_writer

# Sentences per file of translations; a killed step loses at most one file per worker.
CHUNK = 500
# Sentences per sampled batch. It is constant, since a sample depends on the other sentences of its batch.
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
    translate = Translator(
        bundle.model.to(device()),  # type: ignore[arg-type]
        bundle.encoder,
        bundle.decoder,
        bundle.sequence_format(languages),
        beam=beam,
        max_length_ratio=max_length_ratio,
        max_positions=bundle.max_positions,
    )
    for number in range(rank, len(chunks), world):
        if not files[number].exists():
            if beam is None:
                made = _drawn(translate, chunks[number], [seed or 0, number])
            else:
                made = _translated(translate, chunks[number], batch_size)
            _keep(made, files[number])
        context.progress(min((number + 1) * CHUNK, len(sources)), len(sources), "sentences translated")
    if world > 1:
        dist.barrier()
    translated = [Translations(**json.loads(file.read_text(encoding="utf-8"))) for file in files]
    texts = [text for chunk in translated for text in chunk.texts]
    return Translations(texts, sum(chunk.cut for chunk in translated), sum(chunk.seconds for chunk in translated))


def _drawn(translate: Translator, sources: Sequence[str], seeds: Sequence[int]) -> Translations:
    """Sample translations by these seeds, without a change of the global random state."""
    with torch.random.fork_rng():
        torch.manual_seed(int(np.random.default_rng(seeds).integers(2**63)))
        return _translated(translate, sources, DRAWN_AT_ONCE)


def _translated(translate: Translator, sources: Sequence[str], batch_size: int) -> Translations:
    started = time.monotonic()
    texts = translate(sources, batch_size)
    return Translations(texts, translate.cut, time.monotonic() - started)


def _keep(chunk: Translations, file: Path) -> None:
    """Write to a partial file and rename it, so that existing files are complete."""
    partial_file = file.with_suffix(".partial")
    partial_file.write_text(json.dumps(asdict(chunk), ensure_ascii=False), encoding="utf-8")
    sync(partial_file)
    partial_file.replace(file)


METHOD = "likelihood-matching"
SIDE: SideName = "decoder"
Pairs = list[tuple[str, str]]


def match_likelihood(recipe: LikelihoodMatchingRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"])
    require_token_head(bundle.model)
    recipe = with_named_precision(recipe, bundle.model, context)
    target = Tokenizer.load(inputs[f"vocabulary/{SIDE}"])
    # Before translating or training moves the model to a GPU.
    start = StudentTables.of(bundle, target, Method(recipe.starts_from, inputs.get("generator"), recipe.max_similar))
    made_for = origin(side_of(bundle.model, SIDE), bundle.decoder)
    text, cost = _text(recipe, bundle, corpus, context)
    additional = list(Corpus.open(inputs["synthetic"]).pairs("train")) if "synthetic" in inputs else []
    data = _spans(recipe, bundle, target, start, text["train"], recipe.matching.sentences_per_token, additional)
    held_out = _spans(recipe, bundle, target, start, text["dev"])
    module = LikelihoodMatchingLoss(bundle, target, start, recipe.matching)
    trained: Summary = {"steps": 0}
    if len(data):
        training, measures = "likelihood_matching_training", {"loss": "matching", "measured": "divergence"}
        trained = fit_rows(module, data, held_out, recipe, out, context, group=training, part=SIDE, **measures)
    tokens, rows = module.trained()
    if is_writer():
        learnt = DistilledRows(target, tokens, rows.pop("input"), *made_for, METHOD, rows)
        learnt.save(out / SIDE)
    spans, unknown = data.spans
    counted: dict[str, Json] = {"trainable": len(tokens), "in_text": len(data.tokens), "sentences": len(data)}
    return {SIDE: trained | counted | {"spans": spans, "unknown_spans": unknown} | cost}


def _text(
    recipe: LikelihoodMatchingRecipe, bundle: Bundle, corpus: Corpus, context: Context
) -> tuple[dict[Split, Pairs], dict[str, Json]]:
    """Pairs to train on and held-out ones, and the cost of making them. References are read only if configured."""
    text: dict[Split, Pairs] = {}
    cost = {"translation_seconds": 0.0, "translated": 0, "cut_translations": 0}
    for split in ("train", "dev"):
        most = recipe.training.dev_sentences if split == "dev" else None
        if recipe.matching.text == "references":
            text[split] = list(corpus.pairs(split))[:most]
            continue
        sources = list(corpus.lines(split, "source"))[:most]
        made = self_translations(bundle, sources, recipe.languages, recipe.matching.beam, context, split)
        text[split] = list(zip(sources, made.texts, strict=True))
        cost["translation_seconds"] += made.seconds
        cost["translated"] += len(sources)
        cost["cut_translations"] += made.cut
    return text, {} if recipe.matching.text == "references" else {**cost}


def _spans(
    recipe: LikelihoodMatchingRecipe,
    bundle: Bundle,
    target: Tokenizer,
    start: StudentTables,
    pairs: Pairs,
    per_token: int | None = None,
    additional: Sequence[tuple[str, str]] = (),
) -> SpanPairs:
    languages, training, new = recipe.languages, recipe.training, start.tokens
    return SpanPairs(pairs, bundle, "decoder", target, languages, training, new, per_token, recipe.seed, additional)
