"""Evaluation by document: translations of single sentences or of blocks, joined to documents that are scored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from subgraft.config.settings_base import MetricName
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.document_bleu import document_bleu, join_sentences, sentence_bleu, unaligned
from subgraft.evaluation.metrics.speed import speed_of_pass
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.translate_documents import BlockTranslator, ContextTranslator
from subgraft.pipeline.recipes.evaluation import EvaluateRecipe
from subgraft.pipeline.stages.measurements import (
    Texts,
    measure_length,
    output_language,
    outputs_recorded,
    scores_of,
    searcher,
    write_texts,
)
from subgraft.pipeline.stages.stage import Inputs, Summary
from subgraft.subwords.vocabulary.spelling import spelling, spells
from subgraft.training.context import Context, Json
from subgraft.training.setup import device

# TER and METEOR align the words of a whole document: a chapter takes minutes.
DOCUMENT_METRICS: tuple[MetricName, ...] = ("BLEU", "chrF", "ROUGE-L")


class EvaluatedDocuments(NamedTuple):
    """The sentences of each document, on both sides. parts: the runs without a gap of which each consists."""

    sources: list[list[str]]
    references: list[list[str]]
    parts: list[list[int]]

    @classmethod
    def of(cls, corpus: Corpus, split: str, most: int | None) -> EvaluatedDocuments:
        """The documents of a split that begin among its first `most` pairs, all if None.

        Raises UserError for a corpus without documents.
        """
        pairs, test = iter(corpus.pairs(split)), cls([], [], [])
        places: dict[str, int] = {}
        for run in corpus.documents(split):
            taken = list(islice(pairs, run.stop - run.start))
            if run.document not in places:
                if most is not None and run.start >= most:
                    break
                places[run.document] = len(test.sources)
                for side in test:
                    side.append([])
            place = places[run.document]
            test.sources[place] += [source for source, _ in taken]
            test.references[place] += [target for _, target in taken]
            test.parts[place].append(len(taken))
        return test


def measure(recipe: EvaluateRecipe, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, settings, language = Bundle.load(inputs["model"]), recipe.evaluation, recipe.languages.target
    documents = EvaluatedDocuments.of(Corpus.open(inputs["corpus"]), recipe.split, settings.test_sentences)
    translated = _translated(recipe, bundle, documents, context)
    hypotheses, references = translated.documents, documents.references
    written = translated.record | output_language(inputs, list(chain.from_iterable(hypotheses)), language)
    sentences = list(chain.from_iterable(references))
    texts = {
        "sources": [join_sentences(document) for document in documents.sources],
        "references": [join_sentences(document) for document in references],
        "hypotheses": [join_sentences(document) for document in hypotheses],
    }
    spelled = np.array(spells(bundle.encoder, texts["sources"])) & np.array(spells(bundle.decoder, texts["references"]))
    by_document = Texts(texts["sources"], texts["hypotheses"], texts["references"], language)
    scores = scores_of(by_document, (), spelled, out, DOCUMENT_METRICS)
    write_texts(out, **texts)
    (out / "documents.json").write_text(json.dumps(hypotheses, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    differing = len(unaligned(hypotheses, references))
    by_sentence = None if differing else sentence_bleu(hypotheses, references, language)
    length = measure_length(bundle, sentences)
    speed = speed_of_pass(len(sentences), translated.seconds, settings.batch_size)
    result: dict[str, Json] = {
        "scores": {name: asdict(score) for name, score in scores.items()},
        "documents": {
            "count": len(references),
            "differing": differing,
            "d-BLEU": asdict(document_bleu(hypotheses, references, language)),
            "s-BLEU": asdict(by_sentence) if by_sentence else None,
        },
        **length,
        "calibration": None,
        "speed": asdict(speed),
        "parameters": bundle.model.num_parameters(),
        "sentences": len(sentences),
        **written,
        "spelling": {
            "sentences": int(spelled.sum()),
            "source": asdict(spelling(bundle.encoder, list(chain.from_iterable(documents.sources)))),
            "reference": asdict(spelling(bundle.decoder, sentences)),
        },
    }
    (out / "evaluation.json").write_text(json.dumps(result, indent=1) + "\n")
    return {
        **{name: score.value for name, score in scores.items()},
        **({"s-BLEU": by_sentence.value} if by_sentence else {}),
        "documents": len(references),
        "documents_of_other_lengths": differing,
        "sentences_per_second": speed.median,
        "characters_per_token": length["characters_per_token"],
        **written,
        "signatures": {name: score.signature for name, score in scores.items()},
        "artifacts": ["evaluation.json", "documents.json"],
    }


class _Translated(NamedTuple):
    """The sentences of each document, the seconds of the search, and counts for the record."""

    documents: list[list[str]]
    seconds: float
    record: dict[str, Json]


def _translated(recipe: EvaluateRecipe, bundle: Bundle, documents: EvaluatedDocuments, context: Context) -> _Translated:
    settings, block_tokens = recipe.evaluation, recipe.objective.longest_block
    if recipe.objective.needs_documents:
        bundle.model.to(device())  # type: ignore[arg-type]
        form = bundle.sequence_format(recipe.languages)
        search: dict[str, Any] = {"beam": settings.beam, "max_length_ratio": settings.max_length_ratio}
        # Neither a block nor a context reaches over a gap.
        runs = [
            run for text, sizes in zip(documents.sources, documents.parts, strict=True) for run in _cut(text, sizes)
        ]
        translate: BlockTranslator | ContextTranslator
        if block_tokens is not None:
            translate = blocks = BlockTranslator(bundle, form, **search)
            written = blocks.translate(runs, block_tokens, settings.batch_size, context.progress)
        else:
            translate = sentences = ContextTranslator(bundle, form, **search)
            written = sentences.translate(runs, settings.batch_size, context.progress)
        joined_runs = [list(chain.from_iterable(run)) for run in _cut_runs(written, documents.parts)]
        return _Translated(joined_runs, translate.seconds, outputs_recorded(translate))
    alone = searcher(bundle, recipe.languages, settings)
    outputs = alone(list(chain.from_iterable(documents.sources)), settings.batch_size, context.progress)
    sizes = [len(document) for document in documents.sources]
    return _Translated(_cut(outputs, sizes), alone.seconds, outputs_recorded(alone))


def _cut(items: Sequence[str], sizes: Sequence[int]) -> list[list[str]]:
    """Consecutive items in groups of these sizes."""
    following = iter(items)
    return [list(islice(following, size)) for size in sizes]


def _cut_runs(runs: Sequence[list[str]], parts: Sequence[Sequence[int]]) -> list[list[list[str]]]:
    """The runs of each document."""
    following = iter(runs)
    return [list(islice(following, len(sizes))) for sizes in parts]
