"""Evaluation by document: translations of single sentences or of blocks, joined to documents that are scored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from subgraft.config.settings_base import MetricName
from subgraft.data.text.corpus import Corpus
from subgraft.evaluation.metrics.document_bleu import document_bleu, join_sentences, sentence_bleu, unaligned
from subgraft.evaluation.metrics.speed import speed_of_pass
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.inference.translate_documents import BlockTranslator, ContextTranslator
from subgraft.pipeline.artifacts import EVALUATION, write_evaluation
from subgraft.pipeline.compute.outputs import (
    Texts,
    measure_length,
    output_counts,
    output_language,
    score_texts,
    translator_by_engine,
    write_texts,
)
from subgraft.pipeline.stages.evaluation import EvaluateStage
from subgraft.subwords.vocabulary.spelling import spelling, spells
from subgraft.training.context import Context, Json
from subgraft.training.setup import device
from subgraft.training.stage import Inputs, Summary

T = TypeVar("T")

# TER and METEOR align the words of a whole document: a chapter takes minutes.
DOCUMENT_METRICS: tuple[MetricName, ...] = ("BLEU", "chrF", "ROUGE-L")


class EvaluatedDocuments(NamedTuple):
    """The sentences of each document, on both sides. parts: the lengths of its runs, between which sentences lack."""

    sources: list[list[str]]
    references: list[list[str]]
    parts: list[list[int]]

    @classmethod
    def of(cls, corpus: Corpus, split: str, max_pairs: int | None) -> EvaluatedDocuments:
        """The documents of a split that start among its first `max_pairs` pairs; all if None.

        Raises UserError for a corpus without documents.
        """
        pairs, test = iter(corpus.pairs(split)), cls([], [], [])
        indices: dict[str, int] = {}
        for run in corpus.documents(split):
            run_pairs = list(islice(pairs, run.stop - run.start))
            if run.document not in indices:
                if max_pairs is not None and run.start >= max_pairs:
                    break
                indices[run.document] = len(test.sources)
                for side in test:
                    side.append([])
            index = indices[run.document]
            test.sources[index] += [source for source, _ in run_pairs]
            test.references[index] += [target for _, target in run_pairs]
            test.parts[index].append(len(run_pairs))
        return test


def measure(stage: EvaluateStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    bundle, settings, language = Bundle.load(inputs["model"]), stage.evaluation, stage.languages.target
    documents = EvaluatedDocuments.of(Corpus.open(inputs["corpus"]), stage.split, settings.test_sentences)
    translated = _translate_documents(stage, bundle, documents, context)
    hypotheses, references = translated.documents, documents.references
    counts = translated.record | output_language(inputs, list(chain.from_iterable(hypotheses)), language)
    sentences = list(chain.from_iterable(references))
    texts = {
        "sources": [join_sentences(document) for document in documents.sources],
        "references": [join_sentences(document) for document in references],
        "hypotheses": [join_sentences(document) for document in hypotheses],
    }
    spelled = np.array(spells(bundle.encoder, texts["sources"])) & np.array(spells(bundle.decoder, texts["references"]))
    by_document = Texts(texts["sources"], texts["hypotheses"], texts["references"], language)
    scores = score_texts(by_document, (), spelled, out, DOCUMENT_METRICS)
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
        **counts,
        "spelling": {
            "sentences": int(spelled.sum()),
            "source": asdict(spelling(bundle.encoder, list(chain.from_iterable(documents.sources)))),
            "reference": asdict(spelling(bundle.decoder, sentences)),
        },
    }
    write_evaluation(result, out)
    return {
        **{name: score.value for name, score in scores.items()},
        **({"s-BLEU": by_sentence.value} if by_sentence else {}),
        "documents": len(references),
        "documents_of_other_lengths": differing,
        "sentences_per_second": speed.median,
        "characters_per_token": length["characters_per_token"],
        **counts,
        "signatures": {name: score.signature for name, score in scores.items()},
        "artifacts": [EVALUATION, "documents.json"],
    }


class _TranslatedDocuments(NamedTuple):
    """The sentences of each document, the seconds of the search, and counts for the record."""

    documents: list[list[str]]
    seconds: float
    record: dict[str, Json]


def _translate_documents(
    stage: EvaluateStage, bundle: Bundle, documents: EvaluatedDocuments, context: Context
) -> _TranslatedDocuments:
    settings, block_tokens = stage.evaluation, stage.objective.longest_block
    if stage.objective.needs_documents:
        bundle.model.to(device())  # type: ignore[arg-type]
        form = bundle.sequence_format(stage.languages)
        search: dict[str, Any] = {"beam": settings.beam, "max_length_ratio": settings.max_length_ratio}
        # Neither a block nor a context extends over a gap.
        runs = [
            run for text, sizes in zip(documents.sources, documents.parts, strict=True) for run in _split(text, sizes)
        ]
        translate: BlockTranslator | ContextTranslator
        if block_tokens is not None:
            translate = blocks = BlockTranslator(bundle, form, **search)
            translations = blocks.translate(runs, block_tokens, settings.batch_size, context.progress)
        else:
            translate = sentences = ContextTranslator(bundle, form, **search)
            translations = sentences.translate(runs, settings.batch_size, context.progress)
        runs_by_document = _split(translations, [len(sizes) for sizes in documents.parts])
        joined_runs = [list(chain.from_iterable(document)) for document in runs_by_document]
        return _TranslatedDocuments(joined_runs, translate.seconds, output_counts(translate))
    translator = translator_by_engine(bundle, stage.languages, settings)
    outputs = translator(list(chain.from_iterable(documents.sources)), settings.batch_size, context.progress)
    sizes = [len(document) for document in documents.sources]
    return _TranslatedDocuments(_split(outputs, sizes), translator.seconds, output_counts(translator))


def _split(items: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
    """Split items into consecutive groups of these sizes."""
    remaining = iter(items)
    return [list(islice(remaining, size)) for size in sizes]
