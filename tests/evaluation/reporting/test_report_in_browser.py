"""A reader opens the report of a language model's comparison on a screen, on a phone, in the dark, and prints it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from browser import NARROW, WIDE, Browser, chromium
from comparison_data import write_report
from subgraft.evaluation.reporting.records import ReportData

pytestmark = pytest.mark.slow
COMMAND = "subgraft fit models/small --text manuals.txt --other news.txt --out fitted"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def address(report_data: ReportData, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Curves are of bits per character alone, as those of a language model, and one name is long."""
    folder = tmp_path_factory.mktemp("report")
    systems = tuple(
        replace(
            system,
            name="a-system-with-a-long-name-as-sweeps-make-them" if system.name == "mean" else system.name,
            curve=tuple(replace(point, dev_bleu=None) for point in system.curve),
        )
        for system in report_data.systems
    )
    write_report(replace(report_data, systems=systems, characters_per_step=2000, command=COMMAND), folder)
    return (folder / "report.html").as_uri()


def bottom(browser: Browser, selector: str) -> float:
    return float(
        browser.driver.execute_script("return arguments[0].getBoundingClientRect().bottom", browser.one(selector))
    )


def background(browser: Browser) -> str:
    return str(browser.driver.execute_script("return getComputedStyle(document.body).backgroundColor"))


def test_it_is_read_from_the_answer_to_a_folded_table(browser: Browser, address: str) -> None:
    browser.open(address, WIDE)
    assert browser.one(".lead").text.startswith("Take AVG, which scores better than pretrain-finetune: BLEU +")
    assert browser.texts("dl.commands code")[0] == COMMAND
    assert bottom(browser, "dl.commands") < bottom(browser, "figure") < 900, "all of these are on the first screen"
    assert browser.fits() and background(browser) == "rgb(255, 255, 255)"
    tables = browser.all("table")
    assert len(tables) > 8 and not any(table.is_displayed() for table in tables)
    headings = browser.texts("details.section > summary")
    assert "Scores by seed, with intervals and p-values" in "".join(headings)
    browser.one("details.section > summary").click()
    browser.wait(lambda: browser.one("details.section table").is_displayed())
    curves = next(one for one in browser.all("details.section > summary") if one.text == "Learning curves")
    curves.click()
    browser.wait(lambda: browser.one("svg.curves").is_displayed())
    across = browser.texts("svg.curves text")
    assert "characters read" in across and "seconds of training" in across and "800,000" in across
    assert browser.complaints() == []


def test_on_a_phone_tables_scroll_and_the_page_does_not(browser: Browser, address: str) -> None:
    browser.open(address, NARROW)
    assert bottom(browser, ".lead") < bottom(browser, "dl.commands") < 800 and browser.fits()
    browser.driver.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")
    assert browser.fits()
    wide = "return [...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth).length"
    assert browser.driver.execute_script(wide) > 3
    assert any(one.is_displayed() for one in browser.all(".wider")), "which is said below them"


def test_a_long_command_is_folded(browser: Browser, report_data: ReportData, tmp_path: Path) -> None:
    command = f"{COMMAND} {' '.join(f'texts/part-{number}.txt' for number in range(40))}"
    write_report(replace(report_data, command=command), tmp_path)
    browser.open((tmp_path / "report.html").as_uri(), NARROW)
    assert not browser.one("dl.commands").is_displayed() and browser.fits()
    summary = next(one for one in browser.all("summary") if one.text == "The command that made it")
    assert summary.rect["y"] + summary.rect["height"] < 800
    summary.click()
    browser.wait(lambda: browser.texts("dl.commands code")[0] == command)


def test_in_the_dark_it_is_dark(browser: Browser, address: str) -> None:
    browser.open(address, WIDE, dark=True)
    assert background(browser) == "rgb(20, 24, 31)" and browser.fits()


@pytest.mark.parametrize("scripts", [True, False])
def test_on_paper_all_is_open(browser: Browser, address: str, scripts: bool) -> None:
    """Also where scripts are off; then pictures are there in place of drawn curves."""
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    browser.open(address, WIDE)
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert len(browser.all("picture")) == len(browser.all("figure")) - scripts * len(browser.all(".panels"))
    assert not browser.one("details.section table").is_displayed()
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        hidden = "return [...document.querySelectorAll('table')].filter(one => !one.checkVisibility()).length"
        assert browser.driver.execute_script(hidden) == 0
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
