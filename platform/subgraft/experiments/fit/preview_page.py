"""A vocabulary preview as tables for a terminal, and as a plot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from subgraft.evaluation.reporting.drawing import looks, new_figure, png
from subgraft.experiments.fit.choices import INITIALISER
from subgraft.experiments.fit.sentence_cost import SentenceCost
from subgraft.experiments.fit.vocabulary_preview import EXAMPLES, Option, VocabularyPreview

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType


_WAYS = ("as it is", "trimmed", "extended", "replaced")


def render(preview: VocabularyPreview, cost: SentenceCost | None, continues: bool) -> RenderableType:
    """The complete preview; with costs if the model could be timed."""
    from rich.console import Group
    from rich.text import Text

    unknown, with_unknown = preview.old.spelling.unknown_share, preview.old.spelling.with_unknown_share
    lost = " ".join(preview.unknown_tokens) or "none"
    summary = (
        f"{preview.lines:,} lines; every tenth is held out, and figures are of these. Of their tokens {unknown:.2%} "
        f"are unknown to the model, in {with_unknown:.1%} of the lines, and {preview.old.spelling.byte_share:.2%} are "
        f"single bytes. Characters that it cannot spell: {lost}."
    )
    dropped = (
        f"Worth dropping: {preview.unused:,} of {preview.old.size:,} ({preview.unused / preview.old.size:.0%}), which "
        f"the text never uses, such as {' '.join(preview.common_unused) or 'none'}."
    )
    sizes = (
        f"Extensions hold subwords that the text has {EXAMPLES} times or more, as a new embedding wants so many "
        f"examples: all of them, half and a quarter. `subgraft vocab extend` makes one of them with --min-count "
        f"{EXAMPLES}; by itself it also adds what the text has twice, so that a larger --add is possible there. The "
        "largest vocabulary that replaces the old one is the size that suits so much text, or the largest it gives."
    )
    advice = Text(recommended(preview.lines, continues))
    return Group(Text(summary), _options(preview, cost), Text(sizes), _worth(preview), Text(dropped), advice)


def _options(preview: VocabularyPreview, cost: SentenceCost | None) -> RenderableType:
    from rich.box import SIMPLE_HEAD

    from subgraft.base.terminal import Sheet

    headings = ["vocabulary", "subwords", "change", "tokens/\nline", "of the\nold"]
    headings += ["seconds/\nline", "memory/\nline", "a table"] if cost else []
    narrow: dict[str, Any] = {"box": SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}  # fits 80 columns
    table = Sheet(*headings, title="What the text would take", names=2, **narrow)
    for column in table.columns[1:]:
        column.justify = "right"
    for option in preview.options:
        table.add_row(*_cells(option, preview.old, cost))
    return table


def _cells(option: Option, old: Option, cost: SentenceCost | None) -> list[str]:
    tokens = option.spelling.tokens_per_sentence
    ratio = tokens / max(1e-9, old.spelling.tokens_per_sentence)
    change = "" if option is old else f"{option.changed:+,}" if option.way != "replaced" else "new"
    cells = [option.way, f"{option.size:,}", change, f"{tokens:.1f}", f"×{ratio:.2f}"]
    if cost:
        seconds = f"{cost.seconds(tokens, option.size):.3f}"
        cells += [seconds, _megabytes(cost.bytes(tokens, option.size)), _megabytes(cost.table_bytes(option.size))]
    return cells


def _worth(preview: VocabularyPreview) -> RenderableType:
    from rich.text import Text

    from subgraft.base.terminal import Sheet

    if not preview.worth:
        return Text("Worth adding: nothing, as the text has none a hundred times.")
    table = Sheet("subword", "count", "now cut as", "tokens saved", title="Most worth adding")
    for each in preview.worth:
        table.add_row(Text(each.piece), f"{each.count:,}", Text(" ".join(each.cut)), f"{each.saved:,}")
    return table


def _megabytes(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"


def _plain_numbers(panel: Axes) -> None:
    """Plain numbers along the axis; between powers of ten only if there is space."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    low, high = panel.get_xlim()
    plain = StrMethodFormatter("{x:,.0f}")
    panel.xaxis.set_major_formatter(plain)
    panel.xaxis.set_minor_formatter(plain if high < 10 * low else NullFormatter())


def picture(preview: VocabularyPreview) -> bytes:
    """A PNG of the plot."""
    return png(drawn(preview))


def drawn(preview: VocabularyPreview) -> Figure:
    """Tokens per line over the vocabulary's size, a curve for each way of changing it."""
    with new_figure(7.0, 4.2) as figure:
        panel = figure.add_subplot()
        drawn = looks(_WAYS, baseline=_WAYS[0])
        for way in _WAYS:
            points = sorted(
                (each.size, each.spelling.tokens_per_sentence) for each in preview.options if each.way == way
            )
            if points:
                look = drawn[way]
                sizes, tokens = zip(*points, strict=True)
                panel.plot(sizes, tokens, marker=look.marker, color=look.colour, label=way)
        panel.set_xscale("log")
        _plain_numbers(panel)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("subwords of the vocabulary")
        panel.set_ylabel("tokens of a held-out line")
        panel.set_title("What vocabularies would make of the text")
        panel.legend()
        return figure


# Measured gains of a vocabulary of the task's own by amount of text, on which the advice rests. All are from the named
# sections of docs/results.md: three seeds, English to French, a model of 7.5 million parameters.


@dataclass(frozen=True)
class Evidence:
    """The gain of a new vocabulary, initialised by `mean`, over the old one with a number of pairs.

    Attributes:
        bleu: In points: the mean and its 95 % interval.
        p: Two-sided, of BLEU.
        chrf: In points.
        section: Of docs/results.md.
    """

    pairs: int
    bleu: tuple[float, float, float]
    p: float
    chrf: float
    section: str

    @property
    def certain(self) -> bool:
        """Whether the gain is significant."""
        return self.bleu[1] > 0


EVIDENCE = (
    Evidence(2_000, (0.50, -0.09, 1.10), 0.145, 1.2, "Few pairs and a domain's text"),
    Evidence(15_000, (2.10, 1.36, 2.86), 0.019, 3.6, "tatoeba → Python documentation: the main systems"),
)


# Over the old vocabulary, with 2,000 pairs: "Replaced, extended or trimmed".
EXTENDED_CHRF, TRIMMED_CHRF = 1.6, -0.3


def evidence_for(lines: int) -> Evidence:
    """The measurement with the nearest amount of text, as a ratio."""
    return min(EVIDENCE, key=lambda each: abs(math.log(max(1, lines) / each.pairs)))


def recommended(lines: int, continues: bool) -> str:
    """The recommended method and its evidence; `continues`: whether the model continues text."""
    evidence = evidence_for(lines)
    mean, low, high = evidence.bleu
    worth = "brought" if evidence.certain else "brought a difference that is not significant:"
    what = (
        f"The nearest that was measured is {evidence.pairs:,} pairs of a translation ({evidence.section}). A "
        f"vocabulary of the task's own, new rows initialised with `{INITIALISER}`, {worth} "
        f"{mean:+.2f} BLEU [{low:+.2f}, {high:+.2f}] "
        f"(p = {evidence.p:g}) and {evidence.chrf:+.1f} chrF there; other starts brought no more BLEU."
    )
    caution = " A model that is used for other text too had better be extended." if continues else ""
    others = (
        f"With 2,000 pairs, a vocabulary extended by 2,000 subwords brought {EXTENDED_CHRF:+.1f} chrF and a trimmed "
        f"one {TRIMMED_CHRF:+.1f}, which is not significant either."
    )
    return f"{what} {others}{caution}"
