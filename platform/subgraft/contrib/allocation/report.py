"""The report of an allocation: each language's share, and its gain compared with other vocabularies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from subgraft.contrib.allocation.curve import Curve
from subgraft.evaluation.reporting.document import Block, Document, Figure, Paragraph, Section
from subgraft.evaluation.reporting.drawing import SMALL, for_narrow_screens, max_columns, new_figure, png
from subgraft.evaluation.reporting.numbers import MISSING, fixed, signed
from subgraft.evaluation.reporting.table import MainTable, Table, table, text
from subgraft.subwords.vocabulary.capacity import Capacity

TRAIN = "train"
CLASSES = ("low", "middle", "high")


@dataclass(frozen=True)
class Vocabulary:
    """A measured vocabulary. size: the number of all its tokens.  capacities: by language and split."""

    name: str
    size: int
    capacities: Mapping[str, Mapping[str, Capacity]]


@dataclass(frozen=True)
class AllocationResult:
    """An allocation of one total size.

    Attributes:
        total: The size that was allocated.
        exponent: β.
        shares: q, the sampling rates of the languages.
        sizes: The number of ordinary pieces of each language.
        value: The objective, Σ q^β ALP, under the languages' own vocabularies.
        bound: An upper bound of the objective.
        vocabularies: The measured vocabularies, the allocated one first.
    """

    total: int
    exponent: float
    shares: Mapping[str, float]
    sizes: Mapping[str, int]
    value: float
    bound: float
    vocabularies: Sequence[Vocabulary]

    def objective(self, vocabulary: Vocabulary, split: str, languages: Sequence[str] | None = None) -> float | None:
        """Σ q^β ALP over the languages with text of this split, under this tokenizer; None without any."""
        terms = [
            self.shares[language] ** self.exponent * vocabulary.capacities[language][split].alp
            for language in languages or self.shares
            if split in vocabulary.capacities[language]
        ]
        return sum(terms) if terms else None


def classes(curves: Mapping[str, Curve]) -> dict[str, list[str]]:
    """Languages in thirds, by training sentences."""
    ranked = sorted(curves, key=lambda language: (curves[language].sentences, language))
    cuts = [round(len(ranked) * part / len(CLASSES)) for part in range(len(CLASSES) + 1)]
    return {name: ranked[cuts[index] : cuts[index + 1]] for index, name in enumerate(CLASSES)}


def allocation_document(name: str, curves: Mapping[str, Curve], results: Sequence[AllocationResult]) -> Document:
    """The whole report, one allocation after another."""
    return Document(
        f"Allocation of a vocabulary: {name}",
        f"{len(curves)} languages, {sum(curve.sentences for curve in curves.values()):,} training sentences",
        tuple(section for result in results for section in _sections(curves, result)),
    )


def allocation_table(curves: Mapping[str, Curve], result: AllocationResult) -> MainTable:
    """The allocation by language, for a terminal."""
    allocated = result.vocabularies[0]
    headings = ["language", "sentences", "q", "subwords", "of its limit"]
    headings += [f"ALP {vocabulary.name}" for vocabulary in result.vocabularies]
    headings += [f"tokens/word {vocabulary.name}" for vocabulary in result.vocabularies] + ["unknown"]
    return MainTable(
        title=f"{result.total:,} places: {allocated.size:,} written",
        caption=_caption(curves, result),
        headings=tuple(headings),
        rows=tuple(_row(language, curves[language], result) for language in curves),
    )


def _caption(curves: Mapping[str, Curve], result: AllocationResult) -> str:
    gap = (result.bound - result.value) / abs(result.value) if result.value else 0.0
    at_minimum = sum(result.sizes[language] == curve.sizes[0] < curve.sizes[-1] for language, curve in curves.items())
    minimum_note = (
        f" {at_minimum} languages have the smallest size of their curve: a smaller curves.step may do better."
        if at_minimum
        else ""
    )
    return (
        f"ALP of the training text in nats a sentence, not comparable between languages. Σ q^β ALP is "
        f"{result.value:.2f} by own vocabularies; no choice of sizes has more than {result.bound:.2f} ({gap:.2%} off)."
        f"{minimum_note}"
    )


def _row(language: str, curve: Curve, result: AllocationResult) -> tuple[str, ...]:
    size, limit = result.sizes[language], curve.limit
    measured = [vocabulary.capacities[language][TRAIN] for vocabulary in result.vocabularies]
    return (
        language,
        f"{curve.sentences:,}",
        f"{result.shares[language]:.2%}",
        f"{size:,}",
        MISSING if limit is None else f"{size / limit:.0%} of {limit:,}",
        *(fixed(capacity.alp) for capacity in measured),
        *(fixed(capacity.tokens_per_word) for capacity in measured),
        f"{measured[0].unknown:,}",
    )


def _sections(curves: Mapping[str, Curve], result: AllocationResult) -> Iterator[Section]:
    summary = allocation_table(curves, result)
    blocks: list[Block] = [
        Paragraph(text(summary.caption)),
        _vocabulary_table(curves, result),
        table(summary.headings, summary.rows, "Languages"),
        Figure(
            f"shares-{result.total}",
            plot_shares(result.sizes, classes(curves)),
            "Subwords of each language, by how much text it has.",
        ),
        Figure(
            f"curves-{result.total}",
            plot_curves(curves, result.sizes),
            "ALP at each size, and the point that was chosen.",
        ),
    ]
    yield Section(f"{result.total:,} places", tuple(blocks))


def _vocabulary_table(curves: Mapping[str, Curve], result: AllocationResult) -> Table:
    """The objective of each vocabulary by split and by resource class."""
    splits = [
        TRAIN,
        *sorted({split for by_split in result.vocabularies[0].capacities.values() for split in by_split} - {TRAIN}),
    ]
    thirds = classes(curves)
    headings = ["vocabulary", "size", *(f"Σ q^β ALP {split}" for split in splits)]
    headings += [f"{name} ({split})" for split in splits for name in thirds] + ["tokens/word", "unknown", "bytes"]
    rows = list[list[str]]()
    for vocabulary in result.vocabularies:
        measured = [by_split[TRAIN] for by_split in vocabulary.capacities.values()]
        tokens, words = sum(capacity.tokens for capacity in measured), sum(capacity.words for capacity in measured)
        differences = [_difference(result, vocabulary, split, thirds[name]) for split in splits for name in thirds]
        rows.append(
            [
                vocabulary.name,
                f"{vocabulary.size:,}",
                *(fixed(result.objective(vocabulary, split)) for split in splits),
                *differences,
                fixed(tokens / max(1, words)),
                f"{sum(capacity.unknown for capacity in measured):,}",
                f"{sum(capacity.byte_tokens for capacity in measured):,}",
            ]
        )
    note = (
        "Under the tokenizers as they are written. The columns of resource classes, thirds of the languages by their "
        "sentences, are Σ q^β ALP of these; of other vocabularies than the allocated one the difference from it."
    )
    return table(headings, rows, "Vocabularies", note)


def _difference(result: AllocationResult, vocabulary: Vocabulary, split: str, languages: Sequence[str]) -> str:
    """The objective of some languages: the value of the allocated vocabulary, or another one's difference from it."""
    allocated = result.vocabularies[0]
    value, base = (result.objective(each, split, languages) if languages else None for each in (vocabulary, allocated))
    if value is None or base is None:
        return MISSING
    return fixed(value) if vocabulary is allocated else signed(value - base)


# Plots of an allocation: the languages' sizes, and their points on the curves.

_MAX_COLUMNS = 6
_LINE, _SELECTED = "#0072B2", "#D55E00"
_CLASSES = ("#56B4E9", "#0072B2", "#4b5058")


def plot_shares(sizes: Mapping[str, int], classes: Mapping[str, Sequence[str]]) -> bytes:
    """A bar for each language, those with least text on top, coloured by resource class."""
    ranked = [language for languages in classes.values() for language in languages]
    with new_figure(7, 0.8 + 0.19 * len(ranked)) as figure:
        panel = figure.add_subplot()
        for colour, (name, languages) in zip(_CLASSES, classes.items(), strict=True):
            positions = [ranked.index(language) for language in languages]
            panel.barh(positions, [sizes[language] for language in languages], color=colour, label=name)
        panel.set_yticks(range(len(ranked)), ranked, fontsize=SMALL)
        panel.margins(y=0.01)
        panel.invert_yaxis()
        panel.set_xlabel("subwords")
        panel.legend(title="text", loc="upper right")
        return png(figure)


@for_narrow_screens
def plot_curves(curves: Mapping[str, Curve], sizes: Mapping[str, int]) -> bytes:
    """A panel for each language: ALP over size in thousands, a ring at the chosen size, a dashed line at a limit."""
    columns = min(len(curves), max_columns(_MAX_COLUMNS))
    rows = math.ceil(len(curves) / columns)
    with new_figure(max(4.0, 1.9 * columns), 0.5 + 1.5 * rows) as figure:
        panels = figure.subplots(rows, columns, squeeze=False).ravel()
        for panel, (language, curve) in zip(panels, curves.items(), strict=False):
            thousands = [size / 1000 for size in curve.sizes]
            panel.plot(thousands, curve.alp, color=_LINE, marker=".", markersize=3, linewidth=1)
            selected = curve.sizes.index(sizes[language])
            panel.plot(
                [thousands[selected]], [curve.alp[selected]], "o", color=_SELECTED, fillstyle="none", markersize=8
            )
            if curve.limit is not None:
                panel.axvline(curve.limit / 1000, color="#9aa1ac", linewidth=0.8, linestyle="--")
            panel.set_title(language, fontsize=SMALL)
            panel.tick_params(labelsize=7)
        for panel in panels[len(curves) :]:
            panel.set_visible(False)
        figure.supxlabel("thousands of subwords", fontsize=9.5, color="#4a5260")
        figure.supylabel("ALP", fontsize=9.5, color="#4a5260")
        return png(figure)
