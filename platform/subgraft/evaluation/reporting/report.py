"""The report of a comparison: its first screen, the order of its sections, and those on data, time and settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from subgraft.config.corpora import UNDETERMINED
from subgraft.data.text.held_out import NEAR_COPY_SHARE, NGRAM
from subgraft.evaluation.metrics.significance import FEWEST_SEEDS
from subgraft.evaluation.reporting import document, findings, sweeps
from subgraft.evaluation.reporting.answer import SCORES_RULE, Answer, answer_by_scores
from subgraft.evaluation.reporting.examples import translations
from subgraft.evaluation.reporting.numbers import MISSING, count, duration, fixed, percent
from subgraft.evaluation.reporting.plots import plot_stage_seconds, scores_figure
from subgraft.evaluation.reporting.records import Command, ReportData
from subgraft.evaluation.reporting.results import MAIN_METRICS, P_NOTE, learning, results
from subgraft.evaluation.reporting.summary import MetricSummary, summarise
from subgraft.evaluation.reporting.table import Span, Table, Text, table, text
from subgraft.evaluation.reporting.unknown_token_analysis import lost_in_words, spelling_in_short, spelling_table


def main_scores(data: ReportData) -> dict[str, dict[str, MetricSummary]]:
    """The main metrics by system."""
    return {str(name): {system.name: system.metrics[name] for system in summarise(data)} for name in MAIN_METRICS}


def translation_answer(data: ReportData) -> Answer:
    """Which system to take, by the main metrics."""
    return answer_by_scores(data, main_scores(data), "a target sentence")


def build_document(
    data: ReportData, answer: Answer, measured: document.Measured = document.NOTHING_MEASURED
) -> document.Document:
    """The whole report, in the order in which it is read.

    Raises:
        UserError: there are no results, or a system has not one output per reference.
    """
    sections = (
        *results(data),
        *measured.after_results,
        *sweeps.quality_and_speed(data),
        *sweeps.sweeps(data),
        learning(data),
        *measured.after_learning,
        subword_gap(data),
        translations(data),
        *background(data, SCORES_RULE),
    )
    remarks = spelling_in_short(data)
    lead = first_screen(data, answer, scores_figure(data, main_scores(data)), remarks=remarks)
    return document.Document(data.title, subtitle(data, f"test {data.unit}"), sections, lead=lead)


def subtitle(data: ReportData, tested: str) -> str:
    """The languages, and how much was compared."""
    known = [language for language in dict.fromkeys(data.languages) if language != UNDETERMINED]
    pair = "".join([" → ".join(known), " · " * bool(known)])
    systems, seeds = len(data.system_names), len(data.seeds)
    return (
        f"{pair}{systems} system{'s' * (systems > 1)} · {seeds} seed{'s' * (seeds > 1)} · "
        f"{count(len(data.references))} {tested}"
    )


# Three lines of a phone.
_LONG_COMMAND = 100


def first_screen(
    data: ReportData,
    answer: Answer,
    picture: document.Figure,
    notices: Sequence[document.Notice] = (),
    remarks: Sequence[Text] = (),
) -> tuple[document.Block, ...]:
    """The answer, the command that made the report, remarks, and one picture."""
    bullets = (*map(text, answer.remarks), *remarks)
    folded = "The command that made it" if len(data.command) > _LONG_COMMAND else ""
    return (
        document.Lead(answer.sentence),
        *findings.notices(data),
        *notices,
        *([document.Commands((Command("made by", data.command),), folded)] if data.command else []),
        *([document.Bullets(bullets)] if bullets else []),
        picture,
    )


def background(data: ReportData, rule: str) -> list[document.Section]:
    """The last sections: method, data, time, commands, settings. rule: that of the answer."""
    further = [document.Section("Commands to go on with", (document.Commands(data.commands),))] if data.commands else []
    return [_method(data, rule), _setup(data), _time_spent(data), *further, _reproduction(data)]


def _method(data: ReportData, rule: str) -> document.Section:
    """How the answer, the intervals and the p-values are made."""
    seeds = f"Seeds: {', '.join(map(str, data.seeds))}."
    if len(data.seeds) > 1:
        seeds += " Figures without a seed are means over them. All seeds of a system share one upstream model."
    resampled = (
        f"Intervals and p-values: paired bootstrap with {count(data.bootstrap_samples)} resamples of test "
        f"{data.unit}; over several seeds their variance by Student's t is added."
    )
    against = [f"Differences are from {data.baseline}. {P_NOTE}"] if data.baseline else ["There is no baseline."]
    claims = f"A difference is called significant from {FEWEST_SEEDS} seeds on alone."
    items = (f"Model: {data.model}.", rule, seeds, resampled, *against, claims)
    return document.Section("Method: answer, intervals and p-values", (document.Bullets(tuple(map(text, items))),))


_NEAR_COPIES = (
    f"Near copies: dev and test segments with {NEAR_COPY_SHARE:.0%} or more of their runs of {NGRAM} words in the "
    "training text too, which stays."
)


def _setup(data: ReportData) -> document.Section:
    """Corpora, vocabularies, and how each system got its vocabulary."""
    transfers = _transfer_table(data)
    rows: list[list[str | Text]] = [
        [vocabulary.role, vocabulary.kind, count(vocabulary.size), text(Span(vocabulary.fingerprint[:12], "code"))]
        for vocabulary in data.vocabularies
    ]
    blocks = (
        _corpus_table(data),
        *_text_table(data),
        table(["side", "kind", "size", "fingerprint"], rows, "Vocabularies", left=(0, 1, 3)),
        *([transfers] if transfers else []),
    )
    return document.Section("Corpora, vocabularies and initialisers", blocks)


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


def _transfer_table(data: ReportData) -> Table | None:
    transfers = {system.name: system.transfer for system in data.systems if system.transfer is not None}
    if not transfers:
        return None
    headings = ["system", "initialiser", "sides", "carried over", "initialised", "without similar tokens"]
    rows = []
    for name, transfer in transfers.items():
        fallback = ", ".join(f"{count(number)} by {kind}" for kind, number in transfer.fallback.items() if number)
        sides, seen, unseen = ", ".join(transfer.sides), count(transfer.seen), count(transfer.unseen)
        rows.append([name, transfer.initialiser, sides, seen, unseen, fallback or "none"])
    return table(headings, rows, "Transfer", left=(0, 1, 2, 5))


def subword_gap(data: ReportData) -> document.Section:
    """How far the upstream vocabulary is from the task, in figures and in words of many pieces."""
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
    rows: list[list[str | Text]] = [
        [example.word, count(example.count), _pieces(example.upstream), _pieces(example.downstream)]
        for example in gap.examples
    ]
    caption = "Frequent words that the upstream vocabulary segments into several pieces"
    words = [table(["word", "count", "upstream", "downstream"], rows, caption, left=(0, 2, 3))] if rows else []
    lost = map(document.Notice, lost_in_words(data))
    paragraph = document.Paragraph(text(summary))
    return document.Section("Subword gap", (*lost, paragraph, lengths, *spelling_table(data), *words))


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
    return document.Section("Time by stage", tuple(blocks))


def _reproduction(data: ReportData) -> document.Section:
    """Versions, commit and every setting."""
    provenance = data.provenance
    facts = {"git commit": provenance.git_commit or "none", "device": provenance.device, **provenance.versions}
    return document.Section(
        "Provenance: commit, device, versions and all settings",
        (
            _two_columns("", facts),
            document.Folded(f"All {len(provenance.settings)} settings", _two_columns("setting", provenance.settings)),
        ),
    )


def _two_columns(heading: str, facts: Mapping[str, str]) -> Table:
    rows: list[list[str | Text]] = [[name, text(Span(value, "code"))] for name, value in facts.items()]
    return table([heading, "value" if heading else ""], rows, left=(0, 1))
