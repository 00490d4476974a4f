"""PretrainedModel, Corpus and Vocabulary → DistilledRows: new tokens' rows, by likelihoods of the task's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from subgraft.config.settings_base import SideName, Split
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.distilled_rows import DistilledRows, origin
from subgraft.embeddings.learned_rows.likelihood_matching_loss import LikelihoodMatchingLoss, StudentTables
from subgraft.embeddings.learned_rows.span_pairs import SpanPairs
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side as side_of
from subgraft.pipeline.recipes.embeddings import LikelihoodMatchingRecipe
from subgraft.pipeline.stages.self_translation import self_translations
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.context import Context, Json
from subgraft.training.setup import fit, held_out_mean, is_writer, write_curve

METHOD = "likelihood-matching"
SIDE: SideName = "decoder"
Pairs = list[tuple[str, str]]


def run(recipe: LikelihoodMatchingRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    bundle, corpus = Bundle.load(inputs["model"]), Corpus.open(inputs["corpus"])
    recipe = with_named_precision(recipe, bundle.model, context)
    target = Tokenizer.load(inputs[f"vocabulary/{SIDE}"])
    # All of them before translating or training moves the model to a GPU.
    start = StudentTables.of(bundle, target, Method(recipe.starts_from, inputs.get("generator"), recipe.max_similar))
    made_for = origin(side_of(bundle.model, SIDE), bundle.decoder)
    text, cost = _text(recipe, bundle, corpus, context)
    beside = list(Corpus.open(inputs["synthetic"]).pairs("train")) if "synthetic" in inputs else []
    data = _spans(recipe, bundle, target, start, text["train"], recipe.matching.sentences_per_token, beside)
    held_out = _spans(recipe, bundle, target, start, text["dev"])
    module = LikelihoodMatchingLoss(bundle, target, start, recipe.matching)
    trained = _fitted(module, data, held_out, recipe, out, context) if len(data) else {"steps": 0}
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
    beside: Sequence[tuple[str, str]] = (),
) -> SpanPairs:
    languages, training = recipe.languages, recipe.training
    return SpanPairs(pairs, bundle, target, languages, training, start.tokens, per_token, recipe.seed, beside)


def _fitted(
    module: LikelihoodMatchingLoss,
    data: SpanPairs,
    held_out: SpanPairs,
    recipe: LikelihoodMatchingRecipe,
    out: Path,
    context: Context,
) -> dict[str, Json]:
    """Train and write the curve; the summary has its first and last value."""
    settings, group = recipe.training, "likelihood_matching_training"
    evaluate = held_out_mean(module, held_out, settings, "divergence") if len(held_out) else None
    outcome = fit(
        module, {"matching": 1.0}, data, settings, context, group=group, seed=recipe.seed, evaluate=evaluate, part=SIDE
    )
    told = write_curve(outcome, out, f"curve.{SIDE}.json")
    found = [point.values["divergence"] for point in outcome.curve]
    return told | ({"divergence_before": found[0], "divergence_after": found[-1]} if found else {})
