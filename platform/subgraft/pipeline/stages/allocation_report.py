"""Curves, allocations and what was measured of vocabularies → Report of an allocation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.evaluation.reporting.allocation_report import (
    AllocationResult,
    Vocabulary,
    allocation_document,
    allocation_table,
)
from subgraft.evaluation.reporting.document import write_document
from subgraft.pipeline.recipes.allocations import AllocationReportRecipe
from subgraft.pipeline.stages.capacity import read
from subgraft.subwords.allocation.curve import Curve, MeasuredCurve
from subgraft.subwords.allocation.result import Allocated
from subgraft.training.context import Context, Json


def run(recipe: AllocationReportRecipe, inputs: Mapping[str, Path], out: Path, context: Context) -> dict[str, Json]:
    del context
    curves = {language: MeasuredCurve.open(inputs[f"curve/{language}"]).curve for language in recipe.languages}
    results = [_result(recipe, total, inputs) for total in recipe.totals]
    write_document(allocation_document(recipe.name, curves, results), out)
    for result in results:
        _write_table(curves, result, out)
    return {"languages": len(curves), "artifacts": ["report.html", "report.md"]}


def _write_table(curves: Mapping[str, Curve], result: AllocationResult, out: Path) -> None:
    folder = table_folder(out, result.total)
    folder.mkdir()
    allocation_table(curves, result).write(folder)


def table_folder(report: Path, total: int) -> Path:
    """Where in a report the table of an allocation is."""
    return report / f"{total}"


def _result(recipe: AllocationReportRecipe, total: int, inputs: Mapping[str, Path]) -> AllocationResult:
    allocated = Allocated.read(inputs[f"allocation/{total}"])
    compared = [
        Vocabulary(name.partition("/")[0], *read(inputs[f"capacity/{name}"])) for name in recipe.compared[str(total)]
    ]
    return AllocationResult(
        total=total,
        exponent=allocated.capacity_exponent,
        shares={language: allocated.shares[language] for language in recipe.languages},
        sizes=allocated.sizes,
        value=allocated.value,
        bound=allocated.bound,
        vocabularies=compared,
    )
