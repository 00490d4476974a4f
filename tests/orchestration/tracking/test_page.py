"""MLflow's page: the tables, addresses and report that it opens with."""

from __future__ import annotations

import json
import re
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from browser import WIDE, Browser, chromium
from subgraft.base.errors import OperationalError, UserError
from subgraft.base.security.private_files import password_in
from subgraft.base.security.tracking_gate import CLOSED, PASSWORD
from subgraft.orchestration.tracking.page import addresses, serve, start_page
from subgraft.orchestration.tracking.server import Server
from tracking_servers import basic, start_page_process


def make_systems(home: Path, scores: dict[str, float], *, running: bool = False) -> tuple[Server, str]:
    """An invocation with a report and its systems, whose dev score is their test score; running ones have no other."""
    server = Server(home, f"sqlite:///{home}/mlflow.db")
    invocation = server.start("demo", "tuesday" if running else "monday", 20 if running else 1, {}, {})
    for time, (system, score) in enumerate(scores.items(), 2):
        tags = {"kind": "system", "system": system, **({} if running else {"test.signatures.BLEU": "tok:13a"})}
        run = server.start("demo", system, time, {}, tags, invocation)
        server.log_metrics(run, [("dev_bleu", score, 1, 0), ("dev_bleu", score + 1, 2, 1), ("other", 1.0, 1, 0)])
        if not running:
            server.log_metrics(run, [("test/BLEU", score, 1, 0), ("test/seconds", 9.0, 1, 0)])
    if not running:
        (home / "report.html").write_text("<p>The answer")
        server.log_artifacts(invocation, home, ["report.html"], "report")
        server.end(invocation, "FINISHED", 9)
    return server, invocation


def started_tables(server: Server) -> dict[str, Any]:
    """The tables of experiments that the first page sets up."""
    (values,) = re.findall(r"tables, charts\} = (.*);\n", start_page(server))
    return dict(json.loads(values)["tables"])


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database, whose tables take MLflow seconds to make."""
    home = tmp_path_factory.mktemp("empty")
    Server(home, f"sqlite:///{home}/mlflow.db")
    return home / "mlflow.db"


@pytest.fixture
def new_home(database: Path, tmp_path: Path) -> Path:
    """A home with "</script>" in its path."""
    home = tmp_path / "a<" / "script>"
    home.mkdir(parents=True)
    shutil.copy(database, home)
    return home


@pytest.mark.parametrize(
    ("running", "columns"), [(False, ["test/BLEU", "dev_bleu"]), (True, ["dev_bleu"])], ids=["finished", "running"]
)
def test_systems_are_in_order_of_their_score(new_home: Path, running: bool, columns: list[str]) -> None:
    """Columns are the figures that the runs have; a training that runs has those of the dev set."""
    server, _ = make_systems(new_home, {"old": 5.0, "mean": 7.0, "random": 6.0}, running=running)
    ((experiment, table),) = started_tables(server).items()
    assert table["selectedColumns"] == [f"metrics.`{name}`" for name in columns]
    order = f"{table['orderByKey']} {'ASC' if table['orderByAsc'] else 'DESC'}"
    runs = server.client.search_runs([experiment], table["searchFilter"], order_by=[order])
    assert [run.info.run_name for run in runs] == ["mean", "random", "old"]


def test_trials_of_a_search_are_in_order_of_their_score(new_home: Path) -> None:
    server = Server(new_home, f"sqlite:///{new_home}/mlflow.db")
    for number, bits in ((1, 1.5), (2, 1.25)):
        run = server.start("demo", f"trial {number}", number, {}, {"trial": str(number)})
        server.log_metrics(run, [("dev_bits_per_character", bits, 1, 0), ("seconds", 9.0, 1, 0)])
    (table,) = started_tables(server).values()
    assert table["orderByKey"] == "metrics.`dev_bits_per_character`" and table["orderByAsc"] is True
    assert server.client.get_run(addresses(server)["best"].split("/")[4].partition("?")[0]).info.run_name == "trial 2"


def test_best_system_report_and_curves_have_addresses(new_home: Path) -> None:
    assert addresses(Server(new_home, f"sqlite:///{new_home}/mlflow.db")) == {"experiments": "/experiments"}
    server, invocation = make_systems(new_home, {"old": 5.0, "mean": 7.0})
    shown = addresses(server)
    assert list(shown) == ["systems", "curves", "best", "report", "models"]
    assert f"/runs/{invocation}/artifacts/report/report.html" in shown["report"]
    assert server.client.get_run(shown["best"].split("/")[4].partition("?")[0]).info.run_name == "mean"
    make_systems(new_home, {"new": 1.0}, running=True)
    assert list(addresses(server)) == ["curves", "systems", "best", "models"]


def test_paths_end_no_script(new_home: Path) -> None:
    make_systems(new_home, {"old": 5.0})
    server = Server(new_home, f"sqlite:///{new_home}/mlflow.db")
    assert "</script>" in str(new_home) and str(new_home) not in start_page(server)


@pytest.mark.slow
def test_what_opens_by_itself_shows_scores_and_no_refusal(new_home: Path, tmp_path: Path) -> None:
    """In a window of 1280 pixels, as a browser without earlier visits shows them."""
    make_systems(new_home, {"old": 5.0, "mean": 7.0})
    page = start_page_process(new_home, tmp_path / "cwd")
    printed = page.folder.with_suffix(".out").read_text()
    shown = dict(re.findall(r"^(\w+) +(http://\S+)", printed, re.MULTILINE))
    authorization = {"Authorization": basic(password_in(page.home / PASSWORD))}
    try:
        with chromium() as browser:
            browser.driver.execute_cdp_cmd("Network.enable", {})
            browser.driver.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": authorization})
            for address in (f"http://127.0.0.1:{page.port}/", shown["systems"]):
                browser.open(address)
                browser.wait(lambda: "test/BLEU" in browser.one(".ag-header").text)
                (column,) = [cell for cell in browser.all(".ag-header-cell") if cell.text.startswith("test/BLEU")]
                assert column.rect["x"] + column.rect["width"] <= WIDE
                names = browser.wait(lambda: [row.text for row in browser.all(".ag-pinned-left-cols-container a")])
                assert names == ["mean", "old"]
                check_quiet(browser)
            browser.open(shown["curves"])
            browser.wait(lambda: "dev_bleu" in browser.one("body").text)
            check_quiet(browser)
            browser.open(shown["report"])
            browser.wait(lambda: browser.all("iframe"))
            browser.driver.switch_to.frame(browser.one("iframe"))
            assert browser.wait(lambda: browser.one("p").text) == "The answer"
    finally:
        page.process.kill()
        page.process.wait()


def check_quiet(browser: Browser) -> None:
    text = browser.one("body").text
    assert CLOSED not in text and "Welcome to MLflow Assistant" not in text


def test_a_port_in_use_is_reported_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OperationalError, match=r"cannot listen there.*\n.*another --port"):
            serve(tmp_path, port, print)
    assert not (tmp_path / PASSWORD).exists()


def test_a_server_has_a_page_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a page of its own"):
        serve(tmp_path, 5000, print, "http://elsewhere:5000")
