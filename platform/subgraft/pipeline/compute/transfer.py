"""PretrainedModel and Vocabulary → TransferredModel: new embeddings, all else unchanged.

Some are computed from static embeddings, which are trained before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from subgraft.base.security.terminal_escaping import say
from subgraft.config.settings_base import SideName
from subgraft.data.text.corpus import Corpus, training_lines
from subgraft.embeddings.initialisers.donor_model import load_donor
from subgraft.embeddings.initialisers.new_rows import MixingMatrix, save_matrices
from subgraft.embeddings.initialisers.static_embeddings import RECORD, train_static
from subgraft.embeddings.transplanting.transplant import Method, TransplantReport, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.artifacts import additional_corpora
from subgraft.pipeline.stages.models import MethodStage, TransferStage
from subgraft.pipeline.stages.vocabularies import StaticEmbeddingsStage
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.training.context import Context
from subgraft.training.stage import Inputs, Summary


def train_static_embeddings(stage: StaticEmbeddingsStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    """Vectors of a vocabulary's tokens, learnt from one side of the training text."""
    del context
    tokenizer = Tokenizer.load(inputs["vocabulary"])
    corpora = [Corpus.open(inputs["corpus"]), *additional_corpora(inputs)]
    embeddings = train_static(training_lines(stage.side, *corpora), tokenizer, stage.algorithm, stage.settings)
    embeddings.save(out)
    known = int(embeddings.known.sum())
    return {"algorithm": stage.algorithm, "tokens": len(tokenizer), "known": known, "artifacts": [RECORD]}


REPORT = "transfer.json"
# The entry of the report for the model that was transferred, and its vocabularies' fingerprints, outside of a store.
ORIGINAL = "original"


def run_transfer(stage: TransferStage, inputs: Inputs, out: Path, context: Context) -> Summary:
    del context
    target = {side: Tokenizer.load(inputs[f"vocabulary/{side}"]) for side in stage.sides}
    method = method_of(stage, inputs, stage.copy_shared_tokens)
    reports = transfer(inputs["model"], target, method, out, stage.keep_matrices)
    return {"method": stage.method, "sides": {side: asdict(report) for side, report in reports.items()}}


def method_of(stage: MethodStage, inputs: Inputs, copy_shared_tokens: bool = True) -> Method:
    """A stage's method with the inputs of its step that it needs."""
    return Method(
        stage.method,
        inputs.get("generator"),
        stage.max_similar,
        stage.seed,
        copy_shared_tokens,
        static={side: inputs[key] for side in stage.sides if (key := f"static/{side}") in inputs},
        distilled=inputs.get("distilled"),
        donor=None if stage.donor is None else load_donor(inputs["donor"], stage.donor),
    )


class TransferResult(NamedTuple):
    """The model with its new vocabularies, a report of each side, and the matrices of methods that mix rows."""

    bundle: Bundle
    reports: dict[SideName, TransplantReport]
    matrices: dict[SideName, MixingMatrix]


def transfer_bundle(bundle: Bundle, target: Mapping[SideName, Tokenizer], method: Method) -> TransferResult:
    """Give sides of a model their target vocabularies. The model's modules are reused: do not use it afterwards."""
    target = {  # `transplant` refuses a side that the model lacks
        side: tokenizer.for_model_of(bundle.tokenizers[side]) if side in bundle.tokenizers else tokenizer
        for side, tokenizer in target.items()
    }
    transplanted, reports, matrices = transplant(bundle.model, bundle.tokenizers, target, method)
    if dropped := [setting for report in reports.values() for setting in report.dropped]:
        say(f"left out, as the new vocabulary lacks their tokens: {'; '.join(dropped)}", to=sys.stderr)
    tokenizers = {**bundle.tokenizers, **target}
    result = Bundle.of_sides(transplanted, tokenizers)
    return TransferResult(result, reports, matrices)


def write_reports(
    reports: Mapping[SideName, TransplantReport], out: Path, original: Mapping[str, Any] | None = None
) -> None:
    entries: dict[str, Any] = {side: asdict(report) for side, report in reports.items()}
    entries |= {ORIGINAL: original} if original else {}
    (out / REPORT).write_text(json.dumps(entries, indent=1) + "\n")


def transfer(
    model: Path | str, target: Mapping[SideName, Tokenizer], method: Method, out: Path, keep_matrices: bool = False
) -> dict[SideName, TransplantReport]:
    """Give the sides of a model directory or hub id their target vocabularies, and write the result to `out`."""
    bundle, reports, matrices = transfer_bundle(Bundle.load(model), target, method)
    bundle.save(out)
    if keep_matrices:
        save_matrices(matrices, out)
    write_reports(reports, out)
    return reports
