"""A vocabulary preview as tables for a terminal, and as a plot."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from subgraft.config.settings_base import MAX_LOST_LINES
from subgraft.evaluation.reporting.answer import WORTH_SAVING
from subgraft.evaluation.reporting.drawing import looks, new_figure, png
from subgraft.experiments.fit.priors import OLD, PRIORS, advice, recommend
from subgraft.experiments.fit.sentence_cost import SentenceCost
from subgraft.experiments.fit.vocabulary_preview import (
    EXAMPLES,
    WORTH_SPELLING,
    Option,
    VocabularyPreview,
)
from subgraft.subwords.vocabulary.lost_text import LostText

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType


# From this share of single bytes on, a language model hardly knows the text's script, and an extension saves most. Of
# three such texts it lost little or nothing on one (docs/measurements/pretrained-language-model.md).
WORTH_TRYING = 0.1

_WAYS = ("as it is", "trimmed", "extended", "replaced")


def render(preview: VocabularyPreview, cost: SentenceCost | None, continues: bool) -> RenderableType:
    """The complete preview; with costs if the model could be timed."""
    from rich.console import Group

    unknown, with_unknown = preview.old.spelling.unknown_share, preview.old.spelling.with_unknown_share
    unknown_characters = " ".join(preview.unknown_tokens) or "none"
    summary = (
        f"{preview.lines:,} lines; every tenth is held out, and figures are of these. Of their tokens {unknown:.2%} "
        f"are unknown to the model, in {with_unknown:.1%} of the lines, and {preview.old.spelling.byte_share:.2%} are "
        f"single bytes. Characters that it cannot spell: {unknown_characters}."
    )
    share = f"{preview.unused:,} of {preview.old.size:,} ({preview.unused / preview.old.size:.0%})"
    such = f", such as {' '.join(preview.common_unused)}" if preview.common_unused else ""
    dropped = f"Worth dropping: {share}, which the text never uses{such}." if preview.unused else "Nothing to drop."
    sizes = (
        f"Extensions have subwords that occur {EXAMPLES} times or more, because a new embedding needs that many "
        f"examples: all of them, half and a quarter. `subgraft vocab extend` makes one of them with --min-count "
        f"{EXAMPLES}; by default it also adds subwords that occur twice, so that a larger --add is possible there. The "
        "largest vocabulary that replaces the old one has the size that suits this much text, or the largest possible."
    )
    advised = advice(preview.lines, preview.replaced_ratio, continues=continues)
    losses = [f"Warning: {way}, {lost}." for way, lost in _most_lost(preview).items()]
    return Group(summary, _options(preview, cost), *losses, sizes, _gain_table(preview), dropped, advised)


def verdict(preview: VocabularyPreview, continues: bool) -> str:
    """Whether another vocabulary is worth a training, in a sentence; those that lose text do not count.

    Of extensions the largest, but of a language model that knows the text's script the smallest that is worthwhile: few
    frequent subwords cost it least (docs/measurements/pretrained-language-model.md).
    """
    usable = [option for option in preview.options if option.lost.share <= MAX_LOST_LINES]
    by_tokens = sorted(filter(partial(_is_worthwhile, preview), usable), key=preview.tokens_ratio)
    ways = {way: [option for option in by_tokens if option.way == way] for way in ("extended", "replaced")}
    of_bytes = preview.old.spelling.byte_share
    few = continues and of_bytes < WORTH_TRYING
    extended = next(iter(reversed(ways["extended"]) if few else ways["extended"]), None)
    replaced = next(iter(ways["replaced"]), None)
    if extended is None and replaced is None:
        return f"Verdict: stay with the vocabulary, as no other would save {WORTH_SAVING:.0%} of this text's tokens."
    if replaced is not None and (not continues or extended is None):
        what = f"a vocabulary of {replaced.size:,} subwords {_saved(replaced, preview)}"
        if continues:
            return f"Verdict: {what}, so try it with `subgraft fit` if the model is for this text alone."
        advised = recommend(PRIORS, preview.lines, tokens_ratio=preview.replaced_ratio)
        if advised.system == OLD:
            return f"Verdict: stay with the vocabulary: {what}, but on the most similar tasks measured it was worse."
        gain = f"on the most similar tasks measured it gained {advised.gain:+.1f} chrF with `{advised.system}`"
        return f"Verdict: replace the vocabulary: {what}, and {gain}."
    assert extended is not None
    if continues and preview.old.spelling.unknown_share < WORTH_SPELLING:
        if not few:
            return (
                f"Verdict: {extended.changed:,} subwords more {_saved(extended, preview)}. The model writes it partly "
                f"byte by byte ({of_bytes:.0%} of the tokens): of three such texts, an extension lost little or "
                "nothing on one, and 0.20 and 0.45 bits per character on two. `subgraft fit` measures the loss."
            )
        return (
            "Verdict: stay with the vocabulary, unless fewer tokens are worth a small loss: "
            f"{extended.changed:,} subwords more {_saved(extended, preview)}; `subgraft fit` measures the loss."
        )
    what = f"extend the vocabulary by {extended.changed:,} subwords, which {_saved(extended, preview)}"
    return f"Verdict: {what}, and measure with `subgraft fit` whether the model stays as good."


def _is_worthwhile(preview: VocabularyPreview, option: Option) -> bool:
    """Whether the vocabulary saves tokens, or spells text that the present one does not."""
    spelled = preview.old.spelling.unknown_share - option.spelling.unknown_share
    return 1 - preview.tokens_ratio(option) >= WORTH_SAVING or spelled >= WORTH_SPELLING


def _saved(option: Option, preview: VocabularyPreview) -> str:
    saved, unknown = 1 - preview.tokens_ratio(option), preview.old.spelling.unknown_share
    spells = f", and spells most of the {unknown:.1%} unknown to the old one" if unknown >= WORTH_SPELLING else ""
    return f"would {'save' if saved >= 0 else 'add'} {abs(saved):.0%} of this text's tokens{spells}"


def _most_lost(preview: VocabularyPreview) -> dict[str, LostText]:
    """What each way of changing the vocabulary loses of the text, at most; without those that lose nothing."""
    by_loss = sorted(preview.options, key=lambda option: option.lost.lost)
    return {option.way: option.lost for option in by_loss if option.lost.lost}


def _options(preview: VocabularyPreview, cost: SentenceCost | None) -> RenderableType:
    from rich.box import SIMPLE_HEAD

    from subgraft.base.terminal import Table

    headings = ["vocabulary", "subwords", "change", "tokens/\nline", "of the\nold"]
    headings += ["seconds/\nline", "memory/\nline", "a table"] if cost else []
    narrow: dict[str, Any] = {"box": SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)}  # fits 80 columns
    table = Table(*headings, title="What the text would take", names=2, **narrow)
    for column in table.columns[1:]:
        column.justify = "right"
    for option in preview.options:
        table.add_row(*_cells(option, preview, cost))
    return table


def _cells(option: Option, preview: VocabularyPreview, cost: SentenceCost | None) -> list[str]:
    tokens = option.spelling.tokens_per_sentence
    change = "" if option is preview.old else f"{option.changed:+,}" if option.way != "replaced" else "new"
    cells = [option.way, f"{option.size:,}", change, f"{tokens:.1f}", f"×{preview.tokens_ratio(option):.2f}"]
    if cost:
        seconds = f"{cost.seconds(tokens, option.size):.3f}"
        cells += [seconds, _megabytes(cost.bytes(tokens, option.size)), _megabytes(cost.table_bytes(option.size))]
    return cells


def _gain_table(preview: VocabularyPreview) -> RenderableType:
    from subgraft.base.terminal import Table

    if not preview.gains:
        return "Worth adding: nothing, as the text has none a hundred times."
    table = Table("subword", "count", "now segmented as", "tokens saved", title="Most worth adding")
    for gain in preview.gains:
        table.add_row(gain.piece, f"{gain.count:,}", " ".join(gain.pieces), f"{gain.saved:,}")
    return table


def _megabytes(count: int) -> str:
    return f"{count / 2**20:.2f} MiB"


def plain_numbers(panel: Axes) -> None:
    """Plain numbers along the axis; between powers of ten only if there is space."""
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    low, high = panel.get_xlim()
    plain = StrMethodFormatter("{x:,.0f}")
    panel.xaxis.set_major_formatter(plain)
    panel.xaxis.set_minor_formatter(plain if high < 10 * low else NullFormatter())


def plot_png(preview: VocabularyPreview) -> bytes:
    """A PNG of the plot."""
    return png(plot(preview))


def plot(preview: VocabularyPreview) -> Figure:
    """Tokens per line over the vocabulary's size, a curve for each way of changing it."""
    with new_figure(7.0, 4.2) as figure:
        panel = figure.add_subplot()
        look_by_way = looks(_WAYS, baseline=_WAYS[0])
        for way in _WAYS:
            points = sorted(
                (option.size, option.spelling.tokens_per_sentence) for option in preview.options if option.way == way
            )
            if points:
                look = look_by_way[way]
                sizes, tokens = zip(*points, strict=True)
                panel.plot(sizes, tokens, marker=look.marker, color=look.colour, label=way)
        panel.set_xscale("log")
        plain_numbers(panel)
        panel.set_ylim(bottom=0)
        panel.set_xlabel("subwords of the vocabulary")
        panel.set_ylabel("tokens of a held-out line")
        panel.set_title("What vocabularies would make of the text")
        panel.legend()
        return figure
