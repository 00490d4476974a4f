"""Embeddings of new tokens by likelihood matching, on references or on the model's own translations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from subgraft.config.settings_base import SideName, Split
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.distilled_rows import DistilledRows, origin
from subgraft.embeddings.learned_rows.likelihood_matching_loss import LikelihoodMatchingLoss, SpanPairs, StudentTables
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.heads import require_token_head
from subgraft.modeling.sides import side as side_of
from subgraft.pipeline.recipes.embeddings import LikelihoodMatchingRecipe
from subgraft.pipeline.stages.chunked_translation import Search, translated_in_chunks
from subgraft.pipeline.stages.distillation import fit_rows
from subgraft.pipeline.stages.stage import Inputs, Summary
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context, Json
from subgraft.training.setup import is_writer

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
        made = translated_in_chunks(bundle, sources, recipe.languages, Search(recipe.matching.beam), context, split)
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
