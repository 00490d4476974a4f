"""Vocabularies compared, as `subgraft vocab compare` does it: as tables, and as a page to look at."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from subgraft.base.errors import ArgumentError, UserError
from subgraft.config.settings_base import SENTENCEPIECE_KINDS, SideName
from subgraft.interfaces.api.arguments import require_whole
from subgraft.interfaces.api.shown import as_text
from subgraft.interfaces.api.vocabularies import Text, VocabularyLike, text_lines, vocabulary_of
from subgraft.subwords.vocabulary.compare import FIGURES, Gap, ReadText, fragmented, gap_between, read_text, render
from subgraft.subwords.vocabulary.learn import kind_like, learn
from subgraft.subwords.vocabulary.segmentation import readable, segment
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

SAMPLE_LINES, _LINE_LENGTH = 10, 400
# Vocabularies that are learnt for the curve have these shares of the new one's size; every tenth line measures them.
_SHARES, _HELD_OUT = (0.25, 0.5, 1.0, 2.0), 10
_LEARNT = "learnt here"


class Point(NamedTuple):
    """A vocabulary in the curve: its name, its size, and its tokens for a word of the text."""

    name: str
    size: int
    tokens: float


@dataclass(frozen=True, repr=False)
class VocabularyComparison:
    """New vocabularies compared with an old one; `print` shows tables, a notebook the page.

    Attributes:
        names: Of the old vocabulary and the new ones.
        tokenizers: The vocabularies, in the same order.
        gaps: The gap of each new one.
        text: The text, read by all; None if there is none.
        words: The number of words to list.
    """

    names: tuple[str, ...]
    tokenizers: tuple[Tokenizer, ...]
    gaps: tuple[Gap, ...]
    text: ReadText | None
    words: int

    def table(self) -> RenderableType:
        """The tables that the command prints."""
        from rich.console import Group
        from rich.text import Text as Line

        if len(self.gaps) == 1:
            return render(self.gaps[0])
        named = zip(self.names[1:], self.gaps, strict=True)
        return Group(*(part for name, gap in named for part in (Line(f"\n{name}"), render(gap))))

    @cached_property
    def curve(self) -> tuple[Point, ...]:
        """Tokens a word of every tenth line of a sample, by size.

        Next to a single new vocabulary, others of its kind are learnt from the other lines.
        """
        if self.text is None:
            return ()
        lines = [line for line in self.text.sample if line.strip()]
        held_out = lines[::_HELD_OUT]
        words = sum(len(line.split()) for line in held_out)
        named = list(zip(self.names, self.tokenizers, strict=True))
        if len(self.gaps) == 1:
            named += [(_LEARNT, each) for each in self._learn([line for i, line in enumerate(lines) if i % _HELD_OUT])]
        return tuple(
            Point(name, len(each), sum(map(len, each.encode_batch(held_out))) / max(1, words)) for name, each in named
        )

    def _learn(self, lines: Sequence[str]) -> list[Tokenizer]:
        old, new = self.tokenizers
        kind, learnt = kind_like(new), list[Tokenizer]()
        for share in _SHARES:
            with suppress(UserError):  # the text does not support the size
                size, fallback = round(share * len(new)), kind in SENTENCEPIECE_KINDS and bool(new.byte_ids)
                learnt.append(learn(lines, kind=kind, size=size, byte_fallback=fallback, like=old))
        return learnt

    def plot(self) -> Figure:
        """The curve."""
        from subgraft.evaluation.reporting.drawing import new_figure
        from subgraft.experiments.fit.preview_page import plain_numbers

        with new_figure(7.0, 3.4) as figure:
            panel = figure.add_subplot()
            learnt = sorted((point.size, point.tokens) for point in self.curve if point.name == _LEARNT)
            if learnt:
                panel.plot(*zip(*learnt, strict=True), marker=".", color="#9aa1ac", label=_LEARNT)
            for point in (point for point in self.curve if point.name != _LEARNT):
                panel.plot([point.size], [point.tokens], "o", label=point.name)
            panel.set_xscale("log")
            plain_numbers(panel)
            panel.set_ylim(bottom=0)
            panel.set_xlabel("subwords of the vocabulary")
            panel.set_ylabel("tokens a word")
            panel.legend()
            return figure

    def html(self) -> str:
        """A page of its own, which needs no other file."""
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
        head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>Vocabularies compared</title>'
        view = '<meta name="viewport" content="width=device-width, initial-scale=1">'
        style = "<style>:root { color-scheme: light dark; } body { margin: 1rem; }</style>"
        parts = ("<!doctype html>", '<html lang="en">', '<meta charset="utf-8">', view, head, style, self._repr_html_())
        return "\n".join((*parts, "</html>", ""))

    def _repr_html_(self) -> str:
        from jinja2 import Environment
        from markupsafe import Markup

        source = files("subgraft.interfaces.api").joinpath("comparison.html.j2").read_text(encoding="utf-8")
        template = Environment(autoescape=True).from_string(source)
        return template.render(
            style=Markup(_cell_style()),
            names=self.names,
            tokenizers=self.tokenizers,
            readable=readable,
            gaps=list(zip(self.names[1:], self.gaps, strict=True)),
            figures=self._figures(),
            unknown=self._unknown_characters(),
            losses=self._losses(),
            plot=self._plot_png(),
            sample=[[segment(each, line) for each in self.tokenizers] for line in self._sample()],
            words=self._word_tables(),
        )

    def _figures(self) -> list[tuple[str, list[str]]]:
        if self.text is None:
            return []
        spellings, words = self.text.spellings, self.text.words.total()
        sizes = ("entries", [f"{len(each):,}" for each in self.tokenizers])
        per_word = ("tokens a word", [f"{each.tokens / max(1, words):.2f}" for each in spellings])
        rest = [(name, [figure(each) for each in spellings]) for name, figure in FIGURES.items()]
        return [sizes, per_word, *rest]

    def _unknown_characters(self) -> list[tuple[str, str]]:
        """The characters that each vocabulary cannot spell, if there are any."""
        texts = [gap.text for gap in self.gaps if gap.text is not None]
        unknown = [text.downstream_unknown_characters for text in texts]
        unknown = [texts[0].upstream_unknown_characters, *unknown] if texts else []
        return [(name, " ".join(each)) for name, each in zip(self.names, unknown, strict=False) if each]

    def _losses(self) -> list[tuple[str, object]]:
        named = zip(self.names[1:], self.gaps, strict=True)
        return [(name, gap.text.lost) for name, gap in named if gap.text is not None and gap.text.lost.lost]

    def _plot_png(self) -> str:
        from subgraft.evaluation.reporting.drawing import png

        return base64.b64encode(png(self.plot())).decode() if self.curve else ""

    def _sample(self) -> list[str]:
        """Some lines of the text, evenly spaced."""
        lines = [line for line in self.text.sample if line.strip()] if self.text else []
        return [line[:_LINE_LENGTH] for line in lines[:: max(1, len(lines) // SAMPLE_LINES)][:SAMPLE_LINES]]

    def _word_tables(self) -> list[tuple[str, str, Sequence[object]]]:
        tables: list[tuple[str, str, Sequence[object]]] = []
        for name, new, gap in zip(self.names[1:], self.tokenizers[1:], self.gaps, strict=True):
            if self.text is not None and gap.text is not None:
                still = fragmented(self.tokenizers[0], new, self.text.words, self.words)
                tables += [("Words that save the most tokens", name, gap.text.oversegmented)]
                tables += [("Words that are still cut the most", name, still)]
        return [table for table in tables if table[2]]

    def __str__(self) -> str:
        return as_text(self.table())

    def __repr__(self) -> str:
        return f"<VocabularyComparison: {', '.join(self.names[1:])} with {self.names[0]}>"


def compare_vocabularies(
    old: VocabularyLike,
    *new: VocabularyLike,
    text: Text | None = None,
    words: int = 20,
    side: SideName = "decoder",
    field: str = "text",
) -> VocabularyComparison:
    """Compare new vocabularies with an old one, as `subgraft vocab compare` does.

    Args:
        old: A vocabulary, a model, or a directory or hub id of either.
        new: One or several, likewise.
        text: Lines (`str`) and files or folders of text (`Path`), or a table, by which tokens are counted.
        words: The number of words to list.
        side: The side of the vocabulary, for models with two.
        field: The column of the text in JSON lines, data sets and tables.

    Raises:
        UserError: There is no new vocabulary, or the text is empty.
    """
    if not new:
        raise ArgumentError("expected a vocabulary to compare with", where="new")
    require_whole("words", words, 0)
    tokenizers = tuple(vocabulary_of(each, side) for each in (old, *new))
    read = None if text is None else read_text(tokenizers, text_lines(text, field))
    if read is not None and not read.spellings[0].sentences:
        raise ArgumentError("there is no text to compare on", where="text", hint="Give at least one line.")
    gaps = tuple(gap_between(tokenizers[0], each, read, i, words) for i, each in enumerate(tokenizers[1:], 1))
    return VocabularyComparison(_names(old, new), tokenizers, gaps, read, words)


def _names(old: VocabularyLike, new: Sequence[VocabularyLike]) -> tuple[str, ...]:
    """Names of directories and hub ids, or else old and new; with numbers where two are equal."""
    names = []
    for i, each in enumerate((old, *new)):
        default = "old" if i == 0 else "new" if len(new) == 1 else f"new {i}"
        name = Path(each).name if isinstance(each, str | Path) else default
        names.append(name or default)
    return tuple(f"{name} ({i})" if names.count(name) > 1 else name for i, name in enumerate(names))


def _cell_style() -> str:
    """The rules for cells in the style of the page of a served model."""
    page = files("subgraft.interfaces.serving").joinpath("page.html").read_text(encoding="utf-8")
    rules = re.search(r"/\* Cells.*?End of cells\. \*/", page, re.DOTALL)
    assert rules is not None
    return rules[0]
