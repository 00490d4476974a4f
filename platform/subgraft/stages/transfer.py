"""PretrainedModel and Vocabulary → TransferredModel: new tables, everything else as it was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from subgraft.config.base import SideName
from subgraft.initialisers.mixing_matrix import save_matrices
from subgraft.models.bundle import Bundle
from subgraft.recipes.transfer import TransferRecipe
from subgraft.stages.context import Context, Json
from subgraft.transplanting.transplant import Method, TransplantReport, transplant
from subgraft.vocabulary.tokenizer import Tokenizer

REPORT = "transfer.json"


def run(recipe: TransferRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    target = {side: Tokenizer.load(inputs[f"vocabulary/{side}"]) for side in recipe.sides}
    method = method_of(recipe.method, recipe.sides, recipe.max_similar, recipe.seed, inputs, recipe.keep_seen)
    reports = transfer(inputs["model"], target, method, out, recipe.keep_matrices)
    return {"method": recipe.method, "sides": {side: asdict(report) for side, report in reports.items()}}


def method_of(
    name: str,
    sides: Iterable[SideName],
    max_similar: int,
    seed: int,
    inputs: Mapping[str, Path],
    keep_seen: bool = True,
) -> Method:
    """A method with what it needs among a step's inputs."""
    static = {side: inputs[key] for side in sides if (key := f"static/{side}") in inputs}
    return Method(name, inputs.get("generator"), max_similar, seed, keep_seen, static, inputs.get("distilled"))


def transfer(
    model: Path | str, target: Mapping[SideName, Tokenizer], method: Method, out: Path, keep_matrices: bool = False
) -> dict[SideName, TransplantReport]:
    """Give the sides of a model directory or hub id their target vocabularies, and write the result to `out`."""
    bundle = Bundle.load(model)
    transplanted, reports, matrices = transplant(bundle.model, bundle.tokenizers, target, method)
    tokenizers = {**bundle.tokenizers, **target}
    Bundle(transplanted, tokenizers.get("encoder", tokenizers["decoder"]), tokenizers["decoder"]).save(out)
    if keep_matrices:
        save_matrices(matrices, out)
    (out / REPORT).write_text(json.dumps({side: asdict(r) for side, r in reports.items()}, indent=1) + "\n")
    return reports
