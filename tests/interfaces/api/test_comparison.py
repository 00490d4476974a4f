"""Vocabularies compared to look at: a page of its own, and what a notebook shows."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

import subgraft
from browser import NARROW, WIDE, Browser, chromium
from subgraft.base.errors import ArgumentError
from subgraft.interfaces.cli import main
from subgraft.subwords.vocabulary.learn import learn
from toys import german, german_tokenizer

HOSTILE = "<script>document.title='x'</script> <img src=x onerror=\"document.title='x'\"> & \"' &amp;"
TEXT = [*german(300, 9), *[HOSTILE, "नमस्ते क्षि 😀", "שלום garten"] * 20]
NEW = learn(german(400, 7), kind="unigram", size=150, like=german_tokenizer())


class _Page(HTMLParser):
    """The names of a page's tags and attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags, self.attributes, self.titles, self.text = set[str](), set[str](), list[str](), ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self.titles += [value or "" for name, value in attrs if name == "title"]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_comparison_shows_itself() -> None:
    compared = subgraft.compare_vocabularies(german_tokenizer(), NEW, text=TEXT)
    (gap,) = compared.gaps
    assert gap.text is not None and gap.text.downstream.tokens < gap.text.upstream.tokens
    assert "downstream subwords" in str(compared) and "over-segmented" in str(compared)
    page = _Page(compared._repr_html_())
    word = gap.text.oversegmented[0]
    assert word.word in page.text and f"{gap.text.upstream.tokens_per_sentence:.2f}" in page.text
    assert "Words that save the most tokens" in page.text and "Words that are still cut the most" in page.text
    sizes = {point.name: point.size for point in compared.curve}
    assert sizes["old"] == 90 and sizes["new"] == 150 and "learnt here" in sizes
    tokens = {point.name: point.tokens for point in compared.curve}
    assert tokens["new"] < tokens["old"] and compared.plot().axes[0].get_ylabel() == "tokens a word"


def test_no_text_is_read_as_html() -> None:
    lines = [HOSTILE] * 30
    compared = subgraft.compare_vocabularies(
        german_tokenizer(), learn(lines, kind="byte-level-bpe", size=300), text=lines
    )
    page = _Page(compared.html())
    assert not page.tags & {"script", "a"} and not any(name.startswith("on") for name in page.attributes)
    assert page.text.count(HOSTILE) >= 2 and any("<" in title for title in page.titles)


def test_several_are_compared_at_once_and_none_is_refused(tmp_path: Path) -> None:
    larger = learn(german(400, 7), kind="unigram", size=200, like=german_tokenizer())
    larger.save(tmp_path / "larger")
    compared = subgraft.compare_vocabularies(german_tokenizer(), NEW, tmp_path / "larger", text=TEXT)
    assert compared.names == ("old", "new 1", "larger") and [point.name for point in compared.curve] == [
        *compared.names
    ]
    assert "larger" in str(compared) and "new 1" in str(compared) and compared.gaps[1].downstream_size == 200
    without = subgraft.compare_vocabularies(german_tokenizer(), NEW)
    assert without.curve == () and "are not in old" in without._repr_html_()
    with pytest.raises(ArgumentError, match="expected a vocabulary"):
        subgraft.compare_vocabularies(german_tokenizer())
    with pytest.raises(ArgumentError, match="no text"):
        subgraft.compare_vocabularies(german_tokenizer(), NEW, text=[])


def test_the_command_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, vocabulary in (("old", german_tokenizer()), ("new", NEW)):
        vocabulary.save(tmp_path / name)
    (tmp_path / "text").write_text("\n".join(TEXT))
    command = ["vocab", "compare", str(tmp_path / "old"), str(tmp_path / "new"), "--html", str(tmp_path / "page.html")]
    assert main(command) == 2 and "Give --text FILE" in capsys.readouterr().err
    assert main([*command, "--text", str(tmp_path / "text")]) == 0
    compared = subgraft.compare_vocabularies(tmp_path / "old", tmp_path / "new", text=tmp_path / "text")
    assert (tmp_path / "page.html").read_text() == compared.html()
    assert main([*command, "--text", str(tmp_path / "text")]) == 2, "the file exists"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as window:
        yield window


@pytest.mark.slow
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_page_in_a_browser(width: int, browser: Browser, tmp_path: Path) -> None:
    compared = subgraft.compare_vocabularies(german_tokenizer(), NEW, text=[*TEXT, HOSTILE * 20])
    (tmp_path / "page.html").write_text(compared.html())
    browser.complaints()
    browser.open((tmp_path / "page.html").as_uri(), width, dark=width == NARROW)
    assert browser.fits() and browser.complaints() == [] and browser.driver.title == "Vocabularies compared"
    cells = browser.all(".cells span")
    colours = {cell.value_of_css_property("background-color") for cell in cells[:40]}
    assert len(colours) > 3, "tokens are coloured"
    assert browser.driver.execute_script("return document.images[0].naturalWidth") > 100
