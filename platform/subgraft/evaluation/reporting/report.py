"""The report of a comparison: the order of its sections, and those on data, vocabularies, time and settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from subgraft.data.text.held_out import NEAR_COPY_SHARE, NGRAM
from subgraft.evaluation.reporting import document, findings, sweeps
from subgraft.evaluation.reporting.examples import translations
from subgraft.evaluation.reporting.numbers import MISSING, count, duration, fixed, percent
from subgraft.evaluation.reporting.plots import plot_stage_seconds
from subgraft.evaluation.reporting.records import ReportData, TransferSummary
from subgraft.evaluation.reporting.results import learning, results
from subgraft.evaluation.reporting.table import Span, Table, Text, table, text
from subgraft.evaluation.reporting.unknown_token_analysis import lost_in_words, spelling_table


def write_report(data: ReportData, out: Path, measured: document.Measured = document.NOTHING_MEASURED) -> None:
    """Write report.html (self-contained), report.md and its plots/*.png into the existing directory `out`.

    Raises:
        UserError: there are no results, or a system has not one output per reference.
    """
    document.write_document(build_document(data, measured), out)


def build_document(data: ReportData, measured: document.Measured = document.NOTHING_MEASURED) -> document.Document:
    """The whole report, in the order in which it is read."""
    sections = (
        document.Section("In short", (*findings.generated_notice(data.generated), findings.in_short(data))),
        results(data),
        *measured.after_results,
        *sweeps.quality_and_speed(data),
        *sweeps.sweeps(data),
        learning(data),
        *measured.after_learning,
        subword_gap(data),
        translations(data),
        *background(data),
    )
    seeds = len(data.seeds)
    subtitle = (
        f"{data.languages[0]} → {data.languages[1]} · {len(data.system_names)} systems · "
        f"{seeds} seed{'s' * (seeds > 1)} · {count(len(data.references))} test {data.unit}"
    )
    return document.Document(data.title, subtitle, sections)


def background(data: ReportData) -> list[document.Section]:
    """The last sections: set-up, time, commands, settings."""
    commands = [document.Section("Look further", (document.Commands(data.commands),))] if data.commands else []
    return [_setup(data), _time_spent(data), *commands, _reproduction(data)]


_NEAR_COPIES = (
    f"Near copies: dev and test segments with {NEAR_COPY_SHARE:.0%} or more of their runs of {NGRAM} words in the "
    "training text too, which stays."
)


def _setup(data: ReportData) -> document.Section:
    """Corpora, vocabularies, the model, and how each system got its vocabulary."""
    blocks: list[document.Block] = [
        document.Paragraph(text(f"Model: {data.model}.")),
        _corpus_table(data),
        *_text_table(data),
    ]
    blocks.append(_vocabulary_table(data))
    transfers = _transfer_table(data)
    return document.Section("Set-up", (*blocks, *([transfers] if transfers else [])))


def _corpus_table(data: ReportData) -> Table:
    splits = list(dict.fromkeys(split for corpus in data.corpora for split in corpus.segments))
    headings = ["side", "corpus", *splits, "dropped from train", "near copies"]
    rows = [
        [
            corpus.role,
            corpus.name + (" (generated)" if corpus.generated else ""),
            *(count(corpus.segments[split]) if split in corpus.segments else MISSING for split in splits),
            _dropped(corpus.dropped),
            count(corpus.near_copies),
        ]
        for corpus in data.corpora
    ]
    title = f"Corpora, {data.languages[0]} → {data.languages[1]}; segments after cleaning"
    return table(headings, rows, title, _NEAR_COPIES, left=(0, 1, -2))


def _dropped(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count(number)} {reason}" for reason, number in reasons.items()) or "none"


def _text_table(data: ReportData) -> list[Table]:
    """Empty if there was no monolingual text in addition to the pairs."""
    if not data.text:
        return []
    headings = ["side", "read", "kept", "characters", "dropped", "near copies"]
    rows = [
        [
            f"{side.side}, {side.language}",
            count(side.read),
            count(side.retained),
            count(side.characters),
            _dropped(side.dropped),
            count(side.near_copies),
        ]
        for side in data.text
    ]
    note = "It was also used for the vocabularies, static embeddings and learnt rows of its side."
    return [table(headings, rows, "Monolingual text, in lines", note, left=(0, -2))]


def _vocabulary_table(data: ReportData) -> Table:
    rows: list[list[str | Text]] = [
        [vocabulary.role, vocabulary.kind, count(vocabulary.size), text(Span(vocabulary.fingerprint[:12], "code"))]
        for vocabulary in data.vocabularies
    ]
    return table(["side", "kind", "size", "fingerprint"], rows, "Vocabularies", left=(0, 1, 3))


def _transfer_table(data: ReportData) -> Table | None:
    transfers = {system.name: system.transfer for system in data.systems if system.transfer is not None}
    if not transfers:
        return None
    headings = ["system", "initialiser", "sides", "carried over", "initialised", "without similar tokens"]
    rows = [_transfer_cells(name, transfer) for name, transfer in transfers.items()]
    return table(headings, rows, "Transfer", left=(0, 1, 2, 5))


def _transfer_cells(name: str, transfer: TransferSummary) -> list[str]:
    fallback = ", ".join(f"{count(number)} by {kind}" for kind, number in transfer.fallback.items() if number)
    return [
        name,
        transfer.initialiser,
        ", ".join(transfer.sides),
        count(transfer.seen),
        count(transfer.unseen),
        fallback or "none",
    ]


def subword_gap(data: ReportData) -> document.Section:
    """How far the upstream vocabulary is from the task, in figures and in words cut to pieces."""
    gap = data.gap
    total = gap.seen + gap.unseen
    seen, unseen = (f"{count(part)} ({percent(part / max(1, total))})" for part in (gap.seen, gap.unseen))
    summary = f"Of the downstream vocabulary's {count(total)} subwords the upstream one has {seen} and lacks {unseen}."
    ratio = gap.downstream_tokens_per_sentence / gap.upstream_tokens_per_sentence
    lengths = table(
        ["", "upstream", "downstream", "ratio"],
        [
            [
                f"tokens per sentence ({gap.text})",
                fixed(gap.upstream_tokens_per_sentence),
                fixed(gap.downstream_tokens_per_sentence),
                f"×{fixed(ratio)}",
            ]
        ],
    )
    examples = [_segmentations(data)] if gap.examples else []
    lost = map(document.Notice, lost_in_words(data))
    paragraph = document.Paragraph(text(summary))
    return document.Section("The subword gap", (*lost, paragraph, lengths, *spelling_table(data), *examples))


def _segmentations(data: ReportData) -> Table:
    rows: list[list[str | Text]] = [
        [example.word, count(example.count), _pieces(example.upstream), _pieces(example.downstream)]
        for example in data.gap.examples
    ]
    caption = "Frequent words that the upstream vocabulary cuts to pieces"
    return table(["word", "count", "upstream", "downstream"], rows, caption, left=(0, 2, 3))


def _pieces(pieces: tuple[str, ...]) -> Text:
    spans: list[str | Span] = []
    for piece in pieces:
        spans += [Span(piece, "code"), " "]
    return text(*spans[:-1])


def _time_spent(data: ReportData) -> document.Section:
    """Seconds per stage."""
    totals: dict[str, float] = {}
    steps: dict[str, int] = {}
    for step in data.stages:
        totals[step.stage] = totals.get(step.stage, 0.0) + step.seconds
        steps[step.stage] = steps.get(step.stage, 0) + 1
    rows = [[stage, count(steps[stage]), duration(totals[stage])] for stage in totals]
    rows.append(["all", count(len(data.stages)), duration(sum(totals.values()))])
    note = "A step of an earlier run counts the seconds that it took then. Steps may have run side by side."
    blocks: list[document.Block] = [table(["stage", "steps", "time"], rows, "", note)]
    if totals:
        blocks.append(document.Figure("stages", plot_stage_seconds(totals), "Total time per stage."))
    return document.Section("Time spent", tuple(blocks))


def _reproduction(data: ReportData) -> document.Section:
    """Versions, commit and every setting."""
    provenance = data.provenance
    facts = {"git commit": provenance.git_commit or "none", "device": provenance.device, **provenance.versions}
    return document.Section(
        "To do it again",
        (
            _two_columns("", facts),
            document.Folded(f"All {len(provenance.settings)} settings", _two_columns("setting", provenance.settings)),
        ),
    )


def _two_columns(heading: str, facts: Mapping[str, str]) -> Table:
    rows: list[list[str | Text]] = [[name, text(Span(value, "code"))] for name, value in facts.items()]
    return table([heading, "value" if heading else ""], rows, left=(0, 1))
