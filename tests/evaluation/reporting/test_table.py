"""Tables and texts in Markdown, read back by a Markdown parser."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.cells import cell_len

from subgraft.evaluation.reporting.table import Span, escape_markdown, table, table_markdown, text

PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


class TextOnly(HTMLParser):
    """Collects a page's text and the names of its tags."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.tags: list[str] = []

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def shown(markdown: str) -> TextOnly:
    reader = TextOnly()
    reader.feed(PARSER.render(markdown))
    return reader


AWKWARD = st.text(alphabet="ab*_`[](){}<>&#|\\~!:;1.^-+x ", min_size=1, max_size=14).map(str.strip).filter(bool)


@given(cell=AWKWARD)
def test_awkward_text_survives_in_a_cell(cell: str) -> None:
    reader = shown(table_markdown(table(["a", "b"], [[cell, "end"]])))
    body = reader.tags[reader.tags.index("tbody") :]
    assert body == ["tbody", "tr", "td", "td"]
    assert [part for part in reader.text if part.strip()] == ["a", "b", cell, "end"]


@pytest.mark.parametrize("word", ["a|b", "`x`", "``", "▁l|", "\\", "a`|`b"])
def test_code_survives_in_a_cell(word: str) -> None:
    reader = shown(table_markdown(table(["piece"], [[text(Span(word, "code"))]])))
    assert word in reader.text
    assert "code" in reader.tags


def test_columns_line_up_and_wide_characters_count_twice() -> None:
    lines = table_markdown(table(["词", "count"], [["图书馆", "7"], ["x", "1,234"], ["", "12"]])).splitlines()
    assert len({cell_len(line) for line in lines}) == 1
    assert lines[1] == "| ------ | ----: |"
    assert lines[3] == "| x      | 1,234 |"


def test_line_breaks_in_cells_do_not_break_the_table() -> None:
    lines = table_markdown(table(["a\nb"], [["1\n2"]], left=())).splitlines()
    assert lines == ["| a b |", "| --: |", "| 1 2 |"]


def test_ordinary_text_is_left_readable() -> None:
    ordinary = "finetune.batch_size = 4,000 [1.20, 3.40] (Mr. O'Neil & Co.), p < 0.05"
    assert escape_markdown(ordinary) == ordinary.replace("<", r"\<")


def test_marked_words_are_bold() -> None:
    assert table_markdown(table([""], [[text("das ", Span("Haus", "mark"))]])).endswith("**Haus** |")
