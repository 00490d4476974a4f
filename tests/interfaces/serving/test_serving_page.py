"""The page of a served model in a browser, with clicks and keys, wide and narrow."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import subgraft
from browser import NARROW, WIDE, Browser, chromium
from clients import TOKEN, listening_to
from finished import gpt2_bundle, separate_bundle
from instruct import INSTRUCT
from labelled import headed_bundle, labelled_corpus
from served_models import served
from subgraft.config.corpora import Languages
from subgraft.experiments.origin import origin_of
from subgraft.interfaces.serving.writer import Served, open_model
from subgraft.modeling.tokenizers import write_languages
from subgraft.subwords.vocabulary.learn import learn
from subgraft.training.understanding.predictor import Predictor
from toys import german, german_tokenizer

pytestmark = pytest.mark.slow
CONTROL, ENTER, RIGHT, END = "\ue009", "\ue007", "\ue014", "\ue010"
HOSTILE = '<script>document.title="x"</script><img src=x onerror=document.title="x">"\'>&amp;'


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as window:
        yield window


@contextmanager
def _page(browser: Browser, models: dict[str, Path], width: int = WIDE, **settings: Any) -> Iterator[Browser]:
    """The page of these models, open in the browser; it must not complain, and nothing be wider than the window."""
    with ExitStack() as stack:
        opened: dict[str, Served] = {
            name: stack.enter_context(open_model(str(place), None, 1)) for name, place in models.items()
        }
        port = stack.enter_context(listening_to(opened, {name: origin_of(place) for name, place in models.items()}))
        _open(browser, port, width, **settings)
        yield browser
        _require_sound(browser)


def _open(browser: Browser, port: int, width: int = WIDE, **settings: Any) -> None:
    browser.complaints()
    browser.open(f"http://127.0.0.1:{port}/#token={TOKEN}", width, **settings)
    browser.wait(lambda: browser.texts("#models strong"))


def _require_sound(browser: Browser) -> None:
    assert browser.fits() and browser.driver.title == "Subgraft" and not browser.all("main img, main script")
    assert browser.complaints() == []


def _send(browser: Browser, answers: int) -> None:
    """Click, and wait for the answers."""
    browser.one("#send").click()
    _wait_for_answers(browser, answers)


def _wait_for_answers(browser: Browser, answers: int) -> None:
    browser.wait(lambda: browser.one("#send").text != "Stop" and len(browser.all("details.curl")) == answers)


@pytest.fixture(scope="module")
def translators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("translators")
    separate_bundle().save(place / "old")
    subgraft.transfer(place / "old", learn(german(400, 7), kind="unigram", size=150, like=german_tokenizer())).save(
        place / "new"
    )
    for name in ("old", "new"):
        write_languages([Languages(source="en", target="de")], place / name)
    return {name: place / name for name in ("new", "old")}


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_translators_next_to_each_other(translators: dict[str, Path], browser: Browser, width: int) -> None:
    with _page(browser, translators, width, dark=width == NARROW) as page:
        models = " ".join(page.texts("#models li"))
        assert "en → de" in models and "before its transfer 90" in models and "do not say which vocabulary" in models
        page.one("#text").click()
        page.press("thank you friend", ENTER, "the garden")
        page.wait(lambda: len(page.texts("#cuts .cells > div")) == 2)
        page.wait(lambda: page.texts("#cuts .cells > div") == ["thank you friend", "the garden"])
        page.one("#beam").clear()
        page.one("#beam").send_keys("2")
        _send(page, 2)
        assert [heading.split(" · ")[0] for heading in page.texts("#answers h2")] == ["new", "old"]
        assert all(" ms · " in text for text in page.texts("#answers article > p.soft:nth-of-type(1)"))
        page.wait(lambda: len(page.all("#written figure")) == 4)
        outputs = page.texts("#answers article:nth-of-type(1) .output")
        assert len(outputs) == 2 and page.texts("#written > div:nth-of-type(1) .cells > div") == [*outputs, *outputs]
        page.all("#written .cells span")[0].click()
        page.wait(lambda: "Its embedding is" in " ".join(page.texts("#token p")))
        _require_copies_to_answer(page, lambda answer: answer["models"][0]["outputs"] == outputs)


def _require_copies_to_answer(page: Browser, is_right: Callable[[Any], bool]) -> None:
    """Run what the first answer offers to copy."""
    curl, python = (page.texts(f"article details.{name} pre")[0] for name in ("curl", "python"))
    commands = (["bash", "-c", f"{curl} --silent"], json.loads), ([sys.executable, "-c", python], ast.literal_eval)
    for command, read in commands:
        printed = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
        assert is_right(read(printed)), printed


def test_a_language_model_writes_as_it_goes(tmp_path: Path, browser: Browser) -> None:
    gpt2_bundle().save(tmp_path)
    with _page(browser, {"first": tmp_path, "second": tmp_path}) as page:
        page.one("#text").click()
        page.insert('der Garten\'s "Haus"')
        _send(page, 2)
        outputs = page.texts(".output")
        assert len(outputs) == 2 and outputs[0] == outputs[1] != ""
        assert page.texts("#written .cells > div") == outputs
        assert all("first text after" in text and " written, " in text for text in page.texts("article > p.soft"))
        _require_copies_to_answer(page, lambda answer: answer["choices"][0]["text"] == outputs[0])
        page.one("#stop").send_keys(outputs[0][3:5])
        page.one("#tokens").clear()
        page.one("#tokens").send_keys("9")
        _send(page, 2)
        stopped = page.texts(".output")[0]
        assert outputs[0].startswith(stopped) and outputs[0][3:5] not in stopped
        page.one("article summary").click()
        page.one("article details button").click()
        page.wait(lambda: page.one("article details button").text != "Copy")


def test_an_instruct_model_has_conversations(tmp_path: Path, browser: Browser) -> None:
    INSTRUCT["qwen2.5"](tmp_path)
    with _page(browser, {"chat": tmp_path}, NARROW) as page:
        for number, message in enumerate(("der Garten", HOSTILE), 1):
            page.one("#text").click()
            page.insert(message)
            page.press(CONTROL, ENTER)
            _wait_for_answers(page, number)
            assert page.one("#text").get_attribute("value") == ""
        assert page.texts(".user") == ["der Garten", HOSTILE]
        sent = json.loads(page.texts("details.curl pre")[1].split("-d '")[1].split("' 'http")[0].replace("'\\''", "'"))
        assert [turn["role"] for turn in sent["messages"]] == ["user", "assistant", "user"]
        assert sent["messages"][1]["content"] == page.texts(".output")[0]
        page.one("#clear").click()
        assert not page.all("#answers article") and not page.all("#written figure")
        page.one("#chat").click()
        assert page.one("#send").text == "Continue" and not page.one("#clear").is_displayed()


def test_a_classifier_shows_bars(tmp_path: Path, browser: Browser) -> None:
    classifier = Predictor(headed_bundle("classification", labelled_corpus("classification", tmp_path)))
    with listening_to({"new": classifier}) as port:
        _open(browser, port, NARROW)
        browser.one("#text").click()
        browser.press("a text", ENTER)
        browser.insert(HOSTILE)
        _send(browser, 1)
        assert len(browser.all(".bar")) == 2 * len(classifier.labels)
        assert set(browser.texts(".likely > span")) == set(classifier.labels)
        assert browser.texts("article > p.soft")[1:3] == ["a text", HOSTILE]
        _require_copies_to_answer(browser, lambda answer: len(answer["models"][0]["outputs"]) == 2)
        _require_sound(browser)


def test_text_of_all_scripts_is_shown_as_it_is(translators: dict[str, Path], browser: Browser) -> None:
    """Text that looks like HTML, too: in the box, in tokens, in the facts of a token, and in answers."""
    lines = [HOSTILE, "नमस्ते क्षि thank", "שלום עולם thank", "مرحبا بالعالم", "👩‍👩‍👧 🇩🇪🇫🇷 e\u0301"]
    with _page(browser, translators, NARROW) as page:
        page.one("#text").click()
        for line in lines:
            page.insert(line)
            page.press(ENTER)
        page.wait(lambda: page.texts("#cuts .cells > div") == [*lines, ""])
        assert page.all("#cuts .cells .unknown")
        page.one("#cuts .cells").click()
        page.driver.execute_script("document.activeElement.blur()")
        page.driver.execute_script("document.querySelector('#cuts .cells').focus()")
        page.press(RIGHT)
        page.wait(lambda: page.texts("#token p")[0].startswith("<"))
        page.press(RIGHT, RIGHT)
        page.wait(lambda: page.texts("#token p")[0].startswith(page.texts("#cuts .cells span")[2]))
        _send(page, 2)


def test_ten_thousand_characters_are_cut(translators: dict[str, Path], browser: Browser) -> None:
    text = ("thank you friend the garden " * 400)[:10_000]
    with _page(browser, translators) as page:
        page.one("#text").click()
        page.insert(text)
        page.wait(lambda: page.texts("#cuts .cells > div") == [text])
        cells = len(page.all("#cuts .cells span"))
        page.press(END, "x")
        page.wait(lambda: page.texts("#cuts .cells > div") == [f"{text}x"])
        assert len(page.all("#cuts .cells span")) >= cells
        page.one("#send").click()
        page.wait(lambda: "2,000 characters" in page.texts("#status")[0])
        browser.complaints()  # a refused request is in the console


def test_without_the_token_the_page_says_how_to_open_it(translators: dict[str, Path], browser: Browser) -> None:
    with _page(browser, translators) as page:
        page.open(page.driver.current_url.replace(TOKEN, "another"))
        page.wait(lambda: "ends in #token=" in page.texts("#status")[0])
        browser.complaints()


def test_the_command_serves_models_with_their_originals(
    translators: dict[str, Path], browser: Browser, tmp_path: Path
) -> None:
    with served(translators["new"], tmp_path, "--compare-with", str(translators["old"]), "--beam", "1") as model:
        browser.complaints()
        browser.open(f"http://127.0.0.1:{model.port}/#token={model.token_file.read_text().strip()}")
        browser.wait(lambda: len(browser.all("#models strong")) == 2)
        assert "before its transfer 90" in " ".join(browser.texts("#models li"))
        browser.one("#text").click()
        browser.press("thank you")
        _send(browser, 2)
        browser.wait(lambda: len(browser.all("#written figure")) == 4)
        _require_sound(browser)
