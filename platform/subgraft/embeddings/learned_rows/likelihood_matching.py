"""PretrainedModel, Corpus and Vocabulary → LearnedEmbeddings: rows of a decoder's new tokens, by likelihood matching.

On references, or on the model's own translations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from subgraft.config.settings_base import SideName, Split
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.learned_embeddings import LearnedEmbeddings, origin
from subgraft.embeddings.learned_rows.distillation import Pairs, fit_rows, loaded_for_text
from subgraft.embeddings.learned_rows.likelihood_matching_loss import LikelihoodMatchingLoss, SpanPairs, StudentTables
from subgraft.embeddings.methods.likelihood_matching import LikelihoodMatchingStage
from subgraft.embeddings.transplanting.transplant import Method
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.heads import require_token_head
from subgraft.modeling.sides import side as side_of
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.auto_precision import with_named_precision
from subgraft.training.chunked_translation import Search, translate_in_chunks
from subgraft.training.context import Context, Json
from subgraft.training.setup import is_writer
from subgraft.training.stage import Inputs, Summary

# The side whose tokens are predicted.
MATCHED_SIDE: SideName = "decoder"


def match_likelihood(stage: LikelihoodMatchingStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, corpus = loaded_for_text(stage, inputs), Corpus.open(inputs["corpus"])
    require_token_head(bundle.model)
    stage = with_named_precision(stage, bundle.model, context)
    target = Tokenizer.load(inputs[f"vocabulary/{MATCHED_SIDE}"])
    # Copy the initial rows before translation or training moves the model to a GPU.
    start = StudentTables.of(bundle, target, Method(stage.starts_from, inputs.get("generator"), stage.max_similar))
    row_origin = origin(side_of(bundle.model, MATCHED_SIDE), bundle.decoder)
    text, cost = _training_pairs(stage, bundle, corpus, context)
    additional = list(Corpus.open(inputs["synthetic"]).pairs("train")) if "synthetic" in inputs else []
    data = _spans(stage, bundle, target, start, text["train"], stage.matching.sentences_per_token, additional)
    held_out = _spans(stage, bundle, target, start, text["dev"])
    module = LikelihoodMatchingLoss(bundle, target, start, stage.matching)
    trained: Summary = {"steps": 0}
    if len(data):
        training, measures = "likelihood_matching_training", {"loss": "matching", "measured": "divergence"}
        trained = fit_rows(module, data, held_out, stage, out, context, group=training, part=MATCHED_SIDE, **measures)
    tokens, rows = module.trained()
    if is_writer():
        learnt = LearnedEmbeddings(target, tokens, rows.pop("input"), *row_origin, "likelihood-matching", rows)
        learnt.save(out / MATCHED_SIDE)
    spans, unknown = data.spans
    counts: dict[str, Json] = {"trainable": len(tokens), "in_text": len(data.tokens), "sentences": len(data)}
    return {MATCHED_SIDE: trained | counts | {"spans": spans, "unknown_spans": unknown} | cost}


def _training_pairs(
    stage: LikelihoodMatchingStage, bundle: Bundle, corpus: Corpus, context: Context
) -> tuple[dict[Split, Pairs], dict[str, Json]]:
    """Pairs to train on and held-out ones, and the cost of making them. References are read only if configured."""
    text: dict[Split, Pairs] = {}
    cost = {"translation_seconds": 0.0, "translated": 0, "cut_translations": 0}
    for split in ("train", "dev"):
        max_pairs = stage.training.dev_sentences if split == "dev" else None
        if stage.matching.text == "references":
            text[split] = list(corpus.pairs_or_text(split))[:max_pairs]
            continue
        sources = list(corpus.lines(split, "source"))[:max_pairs]
        translations = translate_in_chunks(
            bundle, sources, stage.languages, Search(stage.matching.beam), context, split
        )
        text[split] = list(zip(sources, translations.texts, strict=True))
        cost["translation_seconds"] += translations.seconds
        cost["translated"] += len(sources)
        cost["cut_translations"] += translations.cut
    return text, {} if stage.matching.text == "references" else {**cost}


def _spans(
    stage: LikelihoodMatchingStage,
    bundle: Bundle,
    target: Tokenizer,
    start: StudentTables,
    pairs: Pairs,
    per_token: int | None = None,
    additional: Sequence[tuple[str, str]] = (),
) -> SpanPairs:
    languages, training, new = stage.languages, stage.training, start.tokens
    return SpanPairs(pairs, bundle, MATCHED_SIDE, target, languages, training, new, per_token, stage.seed, additional)
