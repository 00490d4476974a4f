"""Vocabularies: learnt, imported, extended or trimmed; and the gap between the old and the new one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SideName, TextSide
from subgraft.data.tasks.question_generation import require_marks
from subgraft.data.text.corpus import Corpus, training_lines, training_texts, training_texts_by_language
from subgraft.data.text.languages import balanced
from subgraft.evaluation.metrics.scores import corpus_scores
from subgraft.modeling.tokenizers import load_tokenizers
from subgraft.pipeline.artifacts import additional_corpora
from subgraft.pipeline.stages.vocabularies import (
    AdaptedVocabularyStage,
    GapStage,
    ImportedVocabularyStage,
    VocabularyStage,
)
from subgraft.subwords.vocabulary.compare import compare
from subgraft.subwords.vocabulary.extend import extend
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.lost_text import lost_text, sampled
from subgraft.subwords.vocabulary.spelling import counted, remaining_unknown, round_trip, spelling, words_beyond_limit
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.trim import trim
from subgraft.training.context import Context, Json
from subgraft.training.stage import Inputs, Summary

SIDES: tuple[SideName, ...] = ("encoder", "decoder")


def measure_gap(stage: GapStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Inputs: `model`, `corpus`, the decoder's new `vocabulary`, and the encoder's (`encoder`) if it has a new one."""
    del context
    corpus = Corpus.open(inputs["corpus"])
    upstream = load_tokenizers(inputs["model"])
    downstream: dict[SideName, Tokenizer] = {"decoder": Tokenizer.load(inputs["vocabulary"])}
    downstream |= {"encoder": Tokenizer.load(inputs["encoder"])} if "encoder" in inputs else {}
    gap = compare(
        upstream["decoder"], downstream["decoder"], corpus.lines("train", corpus.text_of("decoder")), stage.words
    )
    spelled = [
        _measure_spelling(role, side, split, tokenizers[side], corpus)
        for side in SIDES
        for split in ("train", "test")
        for role, tokenizers in (("upstream", upstream), ("downstream", downstream))
        if side in tokenizers
    ]
    # By side, what the downstream vocabulary loses of the test set and the upstream one does not.
    sides = [side for side in downstream if side in upstream and corpus.size("test")]
    lines = {side: corpus.lines("test", corpus.text_of(side)) for side in sides}
    record = gap.to_json() | {
        "spelling": spelled,
        "lost": {side: asdict(lost_text(upstream[side], downstream[side], lines[side])) for side in sides},
    }
    (out / "gap.json").write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return {"seen": gap.seen, "unseen": gap.unseen, "artifacts": ["gap.json"]}


def _measure_spelling(role: str, side: SideName, split: str, tokenizer: Tokenizer, corpus: Corpus) -> dict[str, Json]:
    """Counts of a split; for the test set also BLEU and chrF of decode(encode(text)) against the text itself."""
    text_side = corpus.text_of(side)
    record: dict[str, Json] = {"role": role, "side": side, "split": split}
    record |= asdict(spelling(tokenizer, corpus.lines(split, text_side)))
    if split == "test" and corpus.size("test"):
        lines, language = list(corpus.lines(split, text_side)), str(corpus.field(text_side).language)
        scores = corpus_scores(round_trip(tokenizer, lines), lines, language, ["BLEU", "chrF"])
        record["scores"] = {name: asdict(score) for name, score in scores.items()}
    return record


def import_vocabulary(stage: ImportedVocabularyStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del inputs, context
    tokenizer = Tokenizer.load(stage.place)
    tokenizer.save(out)
    return {"size": len(tokenizer), "fingerprint": tokenizer.fingerprint}


def adapt_vocabulary(stage: AdaptedVocabularyStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    shared = stage.side == "both"
    if "model" in inputs:
        tokenizers = load_tokenizers(inputs["model"])
        if shared and len({tokenizer.fingerprint for tokenizer in tokenizers.values()}) > 1:
            raise UserError(
                "this model has a vocabulary for each side, so there is no shared one to extend or trim",
                hint="Leave out downstream.shared, or learn one vocabulary for both: `mode: replace`.",
            )
        old = tokenizers[stage.model_side]
    else:
        old = Tokenizer.load(inputs["vocabulary"])
    lines = _lines([Corpus.open(inputs["corpus"]), *additional_corpora(inputs)], stage.side, None)
    characters: Counter[str] = Counter()
    read = sampled(counted(lines, characters))
    if stage.added is None:
        adapted = trim(old, read, stage.min_count)
    else:
        adapted = extend(old, read, stage.added, stage.min_count, stage.words)
        if unknown := remaining_unknown(adapted, characters):
            context.warn(unknown)
    _warn_of_lost_text(old, adapted, read.sample, stage.max_lost_lines, context)
    adapted.save(out)
    return {"size": len(adapted), "upstream_size": len(old), "fingerprint": adapted.fingerprint}


def learn_vocabulary(stage: VocabularyStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    upstream = load_tokenizers(inputs["model"]) if "model" in inputs else {}
    like = upstream.get("decoder")
    corpora = [Corpus.open(inputs[role]) for role in ("corpus", "second") if role in inputs]
    # Further directions and monolingual text belong to the task's corpus, the last one.
    corpus_groups = [[corpus] for corpus in corpora[:-1]] + [[corpora[-1], *additional_corpora(inputs)]]
    texts = [partial(_lines, group, stage.side, stage.settings.language_exponent) for group in corpus_groups]
    copies = [1] * len(texts)
    if stage.weighing == "equal":  # all texts are repeated until they are about equally large
        sizes = [sum(map(len, text())) for text in texts]
        copies = [max(1, round(max(sizes) / max(1, size))) for size in sizes]
    lines = sampled(
        chain.from_iterable(text() for text, count in zip(texts, copies, strict=True) for _ in range(count))
    )
    tokenizer = learn(
        lines,
        kind=stage.settings.kind,
        size=stage.settings.size,
        character_coverage=stage.settings.character_coverage,
        byte_fallback=stage.settings.byte_fallback,
        mask=stage.mask,
        languages=stage.languages,
        like=like,
        words=stage.settings.user_defined_symbols,
        normalization=stage.settings.normalization,
        keep_whitespace=stage.settings.keep_whitespace,
        dummy_prefix=stage.settings.dummy_prefix,
        split_digits=stage.settings.split_digits,
        max_lines=stage.settings.max_lines,
        min_count=stage.settings.min_count,
    )
    require_marks(stage.marks, tokenizer, "upstream.vocabulary")
    if too_long := words_beyond_limit(tokenizer, lines.sample):
        context.warn(too_long)
    if like is not None:
        old = upstream.get("encoder", like) if stage.side == "source" else like
        _warn_of_lost_text(old, tokenizer, lines.sample, stage.max_lost_lines, context)
    tokenizer.save(out)
    return {"size": len(tokenizer), "fingerprint": tokenizer.fingerprint}


def _warn_of_lost_text(
    old: Tokenizer, new: Tokenizer, lines: Iterable[str], max_lost_lines: float, context: Context
) -> None:
    """Warn of lines that the new vocabulary loses. Raises UserError above this share of the lines."""
    message = lost_text(old, new, lines).warning(max_lost_lines, "downstream.vocabulary.max_lost_lines")
    if message:
        context.warn(message)


def _lines(corpora: Sequence[Corpus], side: TextSide | Literal["both"], exponent: float | None) -> Iterator[str]:
    if side != "both":
        return training_lines(side, *corpora)
    if exponent is None:
        return chain.from_iterable(chain.from_iterable(training_texts(*corpora).values()))
    texts = training_texts_by_language(*corpora)
    # The keys are indices because the sampling order depends on the keys.
    lines = {str(index): partial(chain.from_iterable, parts) for index, parts in enumerate(texts.values())}
    sizes = {str(index): sum(map(len, parts)) for index, parts in enumerate(texts.values())}
    return balanced(lines, sizes, exponent, sum(sizes.values()))
