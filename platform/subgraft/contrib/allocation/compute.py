"""Allocation of a vocabulary to languages: curves of ALP, sizes, joint vocabularies, capacities, and the report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from subgraft.base import json_io
from subgraft.base.errors import UserError
from subgraft.contrib.allocation import report as allocation_report
from subgraft.contrib.allocation.choice import RECORD as ALLOCATION_RECORD
from subgraft.contrib.allocation.choice import Allocated, Candidate, NoRoomError, choose
from subgraft.contrib.allocation.curve import RECORD as CURVE_RECORD
from subgraft.contrib.allocation.curve import MeasuredCurve, measure
from subgraft.contrib.allocation.report import AllocationResult
from subgraft.contrib.allocation.stages import (
    AllocationReportStage,
    AllocationStage,
    CapacityStage,
    CurveStage,
    JointVocabularyStage,
)
from subgraft.contrib.allocation.union import fixed_pieces, union
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.languages import balanced, shares
from subgraft.evaluation.reporting.document import write_document
from subgraft.subwords.vocabulary.capacity import Capacity, capacity, piece_shares
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.specials import special_tokens
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context
from subgraft.training.stage import Inputs, Summary


def report_allocation(stage: AllocationReportStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del context
    curves = {language: MeasuredCurve.open(inputs[f"curve/{language}"]).curve for language in stage.languages}
    results = [_result(stage, total, inputs) for total in stage.totals]
    write_document(allocation_report.allocation_document(stage.name, curves, results), out)
    for result in results:
        folder = table_folder(out, result.total)
        folder.mkdir()
        allocation_report.allocation_table(curves, result).write(folder)
    return {"languages": len(curves), "artifacts": ["report.html", "report.md"]}


def table_folder(report: Path, total: int) -> Path:
    """The folder of an allocation's table in a report."""
    return report / f"{total}"


def _result(stage: AllocationReportStage, total: int, inputs: Inputs) -> AllocationResult:
    allocated = Allocated.read(inputs[f"allocation/{total}"])
    compared = [
        allocation_report.Vocabulary(name.partition("/")[0], *read_capacity(inputs[f"capacity/{name}"]))
        for name in stage.compared[str(total)]
    ]
    return AllocationResult(
        total=total,
        exponent=allocated.capacity_exponent,
        shares={language: allocated.shares[language] for language in stage.languages},
        sizes=allocated.sizes,
        value=allocated.value,
        bound=allocated.bound,
        vocabularies=compared,
    )


CAPACITY_RECORD = "capacity.json"
VOCABULARY = "vocabulary"


def measure_capacity(stage: CapacityStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    tokenizer = Tokenizer.load(stage.place or inputs[VOCABULARY])
    corpora = {language: Corpus.open(path) for language, path in inputs.items() if language != VOCABULARY}
    capacities: dict[str, dict[str, dict[str, int | float]]] = {}
    for completed, (language, corpus) in enumerate(corpora.items(), 1):
        text = corpus.text_of("encoder")
        capacities[language] = {
            split: capacity(tokenizer, corpus.lines(split, text)).to_json() for split in corpus.splits
        }
        context.progress(completed, len(corpora), "languages")
    record = {"size": len(tokenizer), "languages": capacities}
    (out / CAPACITY_RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")
    return {"size": len(tokenizer), "artifacts": [CAPACITY_RECORD]}


def read_capacity(directory: Path) -> tuple[int, dict[str, dict[str, Capacity]]]:
    """The size of the vocabulary, and its capacity for each language, by split."""
    record = json_io.parse_object((directory / CAPACITY_RECORD).read_bytes())
    return record["size"], {
        language: {split: Capacity.from_json(values) for split, values in splits.items()}
        for language, splits in record["languages"].items()
    }


def learn_joint_vocabulary(stage: JointVocabularyStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    corpora = {language: Corpus.open(path) for language, path in sorted(inputs.items())}
    sizes = {language: corpus.size("train") for language, corpus in corpora.items()}
    texts = {language: partial(_lines, corpus) for language, corpus in corpora.items()}
    total = min(stage.lines, sum(sizes.values()))
    learn_joint = partial(
        learn,
        kind=stage.kind,
        byte_fallback=stage.byte_fallback,
        mask=stage.mask,
        languages=stage.codes,
    )

    def sample() -> Iterator[str]:
        return balanced(texts, sizes, stage.language_exponent, total)

    try:
        tokenizer = learn_joint(sample(), size=stage.size)
    except TooLargeError as error:
        context.warn(f"the text of all languages together yields {error.possible:,} pieces, not {stage.size:,}")
        tokenizer = learn_joint(sample(), size=error.possible)
    if stage.kind == "bpe":
        # The allocated vocabulary segments by the probabilities of its pieces, so this one does too.
        special = special_tokens(wordpiece=False, mask=stage.mask, languages=stage.codes, like=None)
        scores = {"all": piece_shares(tokenizer, sample())}
        tokenizer = union(scores, special, byte_fallback=stage.byte_fallback)
    tokenizer.save(out)
    return {"size": len(tokenizer), "lines": total}


def _lines(corpus: Corpus) -> Iterator[str]:
    return corpus.lines("train", corpus.text_of("encoder"))


def measure_curve(stage: CurveStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    corpus = Corpus.open(inputs["corpus"])
    text = corpus.text_of("encoder")
    measured = measure(
        lambda: corpus.lines("train", text), stage.kind, stage.sizes, exact=stage.exact, progress=context.progress
    )
    measured.save(out)
    curve = measured.curve
    return {"sentences": curve.sentences, "largest": curve.sizes[-1], "limit": curve.limit, "artifacts": [CURVE_RECORD]}


def allocate(stage: AllocationStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del context
    curves = {language: MeasuredCurve.open(path) for language, path in sorted(inputs.items())}
    special = special_tokens(wordpiece=False, mask=stage.mask, languages=stage.codes, like=None)
    room = stage.total - fixed_pieces(special, stage.byte_fallback)
    sampling_rates = shares(
        {name: measured.curve.sentences for name, measured in curves.items()}, stage.language_exponent
    )
    weights = {name: share**stage.capacity_exponent for name, share in sampling_rates.items()}
    try:
        choice = choose({name: _candidate(measured, weights[name]) for name, measured in curves.items()}, room)
    except NoRoomError as error:
        min_total = error.needed + stage.total - room
        hint = (
            f"Allow at least {min_total:,} pieces, {stage.total - room} of them special, or start curves at smaller "
            "sizes."
        )
        raise UserError(error.what, where=f"total {stage.total}", hint=hint) from None
    pieces = {name: curves[name].vocabularies[size] for name, size in choice.sizes.items()}
    tokenizer = union(pieces, special, byte_fallback=stage.byte_fallback)
    tokenizer.save(out)
    alp_by_size = {
        name: dict(zip(measured.curve.sizes, measured.curve.alp, strict=True)) for name, measured in curves.items()
    }
    allocated = Allocated(
        total=stage.total,
        size=len(tokenizer),
        language_exponent=stage.language_exponent,
        capacity_exponent=stage.capacity_exponent,
        shares=sampling_rates,
        sizes=dict(choice.sizes),
        alp={name: alp_by_size[name][size] for name, size in choice.sizes.items()},
        value=choice.value,
        bound=choice.bound,
    )
    allocated.write(out)
    bounds = {"value": choice.value, "bound": choice.bound}
    return {"size": allocated.size, **bounds, "artifacts": [ALLOCATION_RECORD]}


def _candidate(measured: MeasuredCurve, weight: float) -> Candidate:
    curve = measured.curve
    pieces = [list(measured.vocabularies[size]) for size in curve.sizes]
    return Candidate(curve.sizes, [weight * alp for alp in curve.alp], pieces)
