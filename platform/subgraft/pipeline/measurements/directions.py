"""Directions: scores of every system on each, what training saw of its test pairs, and their matrix."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from safetensors.numpy import load_file

from subgraft.data.text.corpus import Corpus
from subgraft.data.text.held_out import SeenPairs
from subgraft.evaluation.metrics.scores import Score, corpus_scores
from subgraft.evaluation.metrics.sentence_statistics import FloatArray
from subgraft.evaluation.metrics.significance import estimate
from subgraft.evaluation.metrics.untranslated import Copying, copying
from subgraft.evaluation.reporting import drawing
from subgraft.evaluation.reporting.answer import Answer
from subgraft.evaluation.reporting.copies import IDENTIFICATION_NOTE, in_target, mean_shares
from subgraft.evaluation.reporting.document import Block, Figure, Section
from subgraft.evaluation.reporting.numbers import MISSING, count, fixed, interval, percent
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.results import MAIN_METRICS
from subgraft.evaluation.reporting.table import Span, Table, Text, table, text
from subgraft.pipeline.artifacts import SEEN, SPELLED, STATISTICS, read_evaluation, read_lines, read_record
from subgraft.pipeline.measurements.measurement import MeasurementSpec, Sources
from subgraft.training.stage import Inputs, Stage, Summary

if TYPE_CHECKING:
    from subgraft.training.context import Context

COPIED_SOURCE = "source copied"
_TABLE_NOTE = (
    "Means over seeds with 95 % intervals (bootstrap over sentences, and seeds by Student's t); the last column is the "
    "mean over directions. Bold: the system was finetuned on this direction."
)
_ZERO_SHOT = (
    "zero-shot: no step behind the system was trained on pairs of the two languages, in either direction. The "
    "training data of a published checkpoint is unknown here."
)


class SeenPairsStage(Stage):
    """How many test pairs of the input `corpus` occur in the other inputs, among the first `test_sentences` or all."""

    stage_name: ClassVar[str] = "seen-pairs"
    revision: ClassVar[int] = 1

    test_sentences: int | None = None

    def run(self, inputs: Inputs, out: Path, context: Context) -> Summary:
        del context
        training = (Corpus.open(inputs[role]) for role in sorted(inputs) if role != "corpus")
        pairs = list(Corpus.open(inputs["corpus"]).pairs("test"))[: self.test_sentences]
        seen = asdict(SeenPairs.of(pairs, training))
        (out / SEEN).write_text(json.dumps(seen) + "\n", encoding="utf-8")
        return {**seen, "artifacts": [SEEN]}


@dataclass(frozen=True)
class DirectionResult:
    """A system under one seed on the test set of a direction.

    scores, statistics: as those of `SystemResult`.  copied: the scores of the untranslated sources.
    zero_shot: whether no step behind the system was trained on pairs of the two languages.
    copying: copies of sources among the outputs.  output_language: the share of outputs in each language; empty if it
    is not known.
    sentences, pairs, sources, targets: of the test set, and how many of them training text has
    (`data.text.held_out`).
    """

    scores: Mapping[str, Score]
    statistics: Mapping[str, FloatArray] = field(compare=False, repr=False)
    copied: Mapping[str, Score]
    zero_shot: bool
    sentences: int
    pairs: int
    sources: int
    targets: int
    copying: Copying
    output_language: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Directions:
    """The results of a system under one seed on each direction, by its name."""

    results: Mapping[str, DirectionResult]


def _read(sources: Sources) -> Directions | None:
    results = dict[str, DirectionResult]()
    for name, evaluated in sources.directions.items():
        evaluation = read_evaluation(evaluated)
        language = read_record(evaluated)["recipe"]["languages"]["target"]
        texts, references, outputs = (
            read_lines(evaluated / f"{kind}.txt") for kind in ("sources", "references", "hypotheses")
        )
        copied = corpus_scores(texts, references, language, ["BLEU", "chrF"])
        results[name] = DirectionResult(
            {metric: Score(**score) for metric, score in evaluation["scores"].items()},
            {metric: counts for metric, counts in load_file(evaluated / STATISTICS).items() if metric != SPELLED},
            {str(metric): score for metric, score in copied.items()},
            zero_shot=name in sources.zero_shot,
            copying=copying(texts, outputs, language),
            output_language=evaluation.get("output_language", {}),
            **json.loads((sources.seen[name] / SEEN).read_text(encoding="utf-8")),
        )
    return Directions(results) if results else None


def directions(data: ReportData) -> list[Section]:
    """Scores on each direction; nothing for an experiment without directions."""
    names = tested_directions(data)
    if not names:
        return []
    blocks: list[Block] = [
        *(_score_table(data, names, metric) for metric in MAIN_METRICS),
        _language_table(data, names),
    ]
    caption = "Rows: systems, and in brackets what they were finetuned on. Columns: what they were tested on."
    rows = [
        MatrixRow(
            system,
            data.results(system)[0].trained_on,
            tuple(mean_score(data, system, name, MAIN_METRICS[0]) for name in names),
        )
        for system in data.system_names
    ]
    matrix = plot_transfer_matrix(rows, names, MAIN_METRICS[0])
    return [Section("Directions", (*blocks, Figure("directions", matrix, caption), _overlap_table(data, names)))]


def tested_directions(data: ReportData) -> list[str]:
    """The directions that systems were tested on, in order."""
    measured = (system.measured(Directions) for system in data.systems)
    return list(dict.fromkeys(name for each in measured if each is not None for name in each.results))


def mean_score(data: ReportData, system: str, direction: str, metric: str) -> float | None:
    """A system's score on a direction, as the mean over seeds."""
    results = _results(data, system, direction)
    return fmean(result.scores[metric].value for result in results) if results else None


def with_direction_means(answer: Answer, data: ReportData) -> Answer:
    """The answer, which is about the first direction, with the means over all directions.

    The candidate is not advised if a mean is lower with it.
    """
    names, old, own = tested_directions(data), data.baseline, answer.candidate
    if len(names) < 2 or old is None or own is None:
        return answer
    means = {
        metric: [fmean(mean_score(data, system, name, metric) or 0.0 for name in names) for system in (own, old)]
        for metric in MAIN_METRICS
    }
    in_words = "; ".join(f"{name} {fixed(ours)} and {fixed(theirs)}" for name, (ours, theirs) in means.items())
    remark = f"That is {names[0]}. Means of {len(names)} directions with {own} and {old}: {in_words}."
    answer = replace(answer, remarks=(remark, *answer.remarks))
    if answer.system == own and any(ours < theirs for ours, theirs in means.values()):
        sentence = f"Keep {old}, as {own} scores worse over all {len(names)} directions."
        return replace(answer, system=old, sentence=sentence, remarks=(f"Of one: {answer.sentence}", *answer.remarks))
    return answer


def _results(data: ReportData, system: str, direction: str) -> list[DirectionResult]:
    by_seed = data.measured(Directions).get(system, ())
    return [each.results[direction] for each in by_seed if direction in each.results]


def _score_table(data: ReportData, names: Sequence[str], metric: str) -> Table:
    body: list[list[str | Text]] = []
    for system in data.system_names:
        trained = data.results(system)[0].trained_on
        cells = [_cell(data, system, name, metric, name in trained) for name in names]
        means = [score for name in names if (score := mean_score(data, system, name, metric)) is not None]
        body.append([system, *cells, fixed(fmean(means)) if means else MISSING])
    copied = [
        next((each.copied[metric].value for system in data.system_names for each in _results(data, system, name)), None)
        for name in names
    ]
    body.append([COPIED_SOURCE, *map(fixed, copied), MISSING])
    headings = [*(f"{name}\n{metric}" for name in names), f"mean\n{metric}"]
    note = f"{COPIED_SOURCE}: the score of the untranslated source, which a model that copies reaches."
    return table(
        ["system", *headings], body, f"{metric} on the test set of each direction", _TABLE_NOTE, note, _ZERO_SHOT
    )


def _cell(data: ReportData, system: str, direction: str, metric: str, trained: bool) -> str | Text:
    results = _results(data, system, direction)
    if not results:
        return MISSING
    statistics = np.stack([result.statistics[metric] for result in results])
    score = estimate(metric, statistics, samples=data.bootstrap_samples, seed=data.bootstrap_seed)
    score_span = Span(fixed(score.score), "strong" if trained else "plain")
    zero_shot = (Span("\nzero-shot", "faint"),) if results[0].zero_shot else ()
    return text(score_span, "\n", Span(interval(score.interval), "faint"), *zero_shot)


def _language_table(data: ReportData, names: Sequence[str]) -> Table:
    """The share of outputs in the target language, and of copies of their sources."""
    body: list[list[str | Text]] = []
    for system in data.system_names:
        body.append([system, *(_language_cell(_results(data, system, name), name) for name in names)])
    note = (
        "Means over seeds; below, the language that most other outputs are in, and the share of outputs that equal "
        f"their sources. {IDENTIFICATION_NOTE}"
    )
    headings = [f"{name}\nin {_target(name)}" for name in names]
    return table(["system", *headings], body, "Outputs in the target language", note)


def _language_cell(results: Sequence[DirectionResult], name: str) -> str | Text:
    if not results:
        return MISSING
    shares, target = mean_shares([result.output_language for result in results]), _target(name)
    others = {language: share for language, share in shares.items() if language != target}
    other_language = max(others, key=others.__getitem__, default=None)
    other_note = (Span(f"\n{other_language} {percent(others[other_language])}", "faint"),) if other_language else ()
    copied = fmean(result.copying.identical for result in results)
    copies_note = (Span(f"\ncopies {percent(copied)}", "faint"),) if copied else ()
    return text(Span(in_target(shares, target), "strong"), *other_note, *copies_note)


def _target(name: str) -> str:
    return name.partition("-")[2]


def _overlap_table(data: ReportData, names: Sequence[str]) -> Table:
    """Test pairs in training text, a row for each direction and each group of systems with the same counts."""
    body = list[list[str | Text]]()
    for name in names:
        groups: dict[tuple[int, ...], list[str]] = {}
        for system in data.system_names:
            for seen in _results(data, system, name)[:1]:
                groups.setdefault((seen.sentences, seen.pairs, seen.sources, seen.targets), []).append(system)
        body += [[name, ", ".join(systems), *map(count, counts)] for counts, systems in groups.items()]
    note = (
        "Lines equal up to case, white space, quotation marks and final punctuation, in any text that the trainings "
        "behind a system and its vocabulary read. Pairs: both sides together; sources, targets: that side alone too."
    )
    headings = ["direction", "systems", "test pairs", "pairs\nseen", "sources\nseen", "targets\nseen"]
    return table(headings, body, "Test pairs in training text, by digest", note, left=(0, 1))


# The longest row label that a matrix shows in a line.
_MAX_LABEL_LENGTH = 22
_DARK = 0.6  # share of the scale above which text is white


@dataclass(frozen=True)
class MatrixRow:
    """A row of the matrix of transfer; `scores` is None for a direction on which the system was not tested."""

    name: str
    trained_on: tuple[str, ...]
    scores: tuple[float | None, ...]

    @property
    def label(self) -> str:
        """The name, and what it was finetuned on, below it if both are long."""
        trained = ", ".join(self.trained_on)
        separator = "\n" if len(self.name) + len(trained) > _MAX_LABEL_LENGTH else " "
        return f"{self.name}{separator}({trained})"


@drawing.for_narrow_screens
def plot_transfer_matrix(rows: Sequence[MatrixRow], tested: Sequence[str], metric: str) -> bytes:
    """Scores as shades of one colour, each written in its cell; directions that a row was trained on have a frame."""
    from matplotlib.patches import Rectangle

    highest = max((score for row in rows for score in row.scores if score is not None), default=0.0) or 1.0
    with drawing.new_figure(2.6 + 0.9 * len(tested), 1.2 + 0.42 * len(rows)) as figure:
        panel = figure.subplots()
        shades = [[score or 0.0 for score in row.scores] for row in rows]
        panel.imshow(shades, cmap="Blues", vmin=0.0, vmax=highest, aspect="auto")
        for row_index, row in enumerate(rows):
            for column, (direction, score) in enumerate(zip(tested, row.scores, strict=True)):
                colour = "white" if (score or 0.0) > _DARK * highest else "#2b3340"
                weight = "bold" if direction in row.trained_on else "normal"
                panel.text(
                    column, row_index, fixed(score, 1), ha="center", va="center", color=colour, weight=weight,
                    fontsize=drawing.SMALL,
                )  # fmt: skip
                if direction in row.trained_on:
                    corner = (column - 0.46, row_index - 0.44)
                    panel.add_patch(Rectangle(corner, 0.92, 0.88, fill=False, edgecolor="#D55E00", linewidth=1.6))
        panel.set_xticks(range(len(tested)), tested, rotation=40 if len(tested) > 5 else 0)
        panel.set_yticks(range(len(rows)), [row.label for row in rows])
        panel.tick_params(length=0)
        panel.grid(visible=False)
        panel.set(title=f"{metric} on the test set of each direction", xlabel="tested on", ylabel="finetuned (on)")
        return drawing.png(figure)


DIRECTIONS = MeasurementSpec(stage=SeenPairsStage, read=_read, after_results={"translation": directions})
