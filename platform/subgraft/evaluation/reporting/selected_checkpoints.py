"""Which step's weights each finetuning took, and what is said where that is step 0."""

from __future__ import annotations

from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.document import Notice
from subgraft.evaluation.reporting.remarks import untrained
from subgraft.evaluation.reporting.table import Column, Span, Table, Text, table, text


def kept_steps(data: ReportData) -> Table:
    """The steps by seed, with the last step; marked where some system was not finetuned at all."""
    rows: list[list[str | Text]] = []
    for name in data.system_names:
        results = data.results(name)
        steps: list[Span] = []
        for result in results:
            steps += [Span(" · ")] if steps else []
            steps.append(Span(str(result.kept_step), "warning" if result.kept_step == 0 else "plain"))
        last = {result.curve[-1].step for result in results if result.curve}
        rows.append([name, tuple(steps), " · ".join(map(str, sorted(last)))])
    columns = [Column("system", "left"), Column("step of the weights\nthat were taken, by seed"), Column("last step")]
    return table(columns, rows, "Which weights the test scores are of")


def untrained_notice(data: ReportData) -> tuple[Notice, ...]:
    """A warning where weights of step 0 were taken."""
    said = untrained(data)
    return (Notice(f"Step 0: {said[:1].lower()}{said[1:]}"),) if said else ()


def marked(name: str, data: ReportData) -> Text:
    """What stands below a system's name in tables of its scores, where some seed of it was not finetuned."""
    zero = any(result.kept_step == 0 for result in data.results(name))
    return text("\n", Span("weights of step 0", "warning")) if zero else ()
