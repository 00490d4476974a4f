"""MLflow's page: its password, closed requests, written files, and its end."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

import psutil
import pytest

from browser import WIDE, Browser, chromium
from listening import answering_elsewhere, listening
from subgraft.base.errors import OperationalError, UserError
from subgraft.base.security.private_files import password_in
from subgraft.base.security.tracking_gate import CLOSED, PASSWORD, USER, is_open
from subgraft.orchestration.tracking.page import addresses, serve, start_page
from subgraft.orchestration.tracking.server import Server
from tracking_servers import wait_for

API = "/api/2.0/mlflow"


@dataclass(frozen=True)
class Page:
    """A page that is served by a process of its own, from a folder of its own."""

    port: int
    home: Path
    folder: Path
    process: subprocess.Popen[bytes]

    def ask(self, path: str, method: str = "GET", body: str = "", **headers: str) -> tuple[int, bytes]:
        """Status and text of an answer. Keywords are headers, with `_` for `-`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        try:
            connection.request(method, path, body, {name.replace("_", "-"): one for name, one in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def entitled(self, path: str, method: str = "GET", body: str = "", **headers: str) -> tuple[int, bytes]:
        """The same with the password."""
        return self.ask(path, method, body, Authorization=basic(password_in(self.home / PASSWORD)), **headers)


def basic(password: str, user: str = USER) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def _printed_port(output: Path, process: subprocess.Popen[bytes]) -> int:
    """The port that the command has chosen."""
    while not (port := re.search(rb"http://127\.0\.0\.1:(\d+)/", output.read_bytes())):
        assert process.poll() is None, output.read_text()
        sleep(0.2)
    return int(port[1])


def start(home: Path, folder: Path) -> Page:
    folder.mkdir()
    environment = os.environ | {"SUBGRAFT_HOME": str(home)}
    environment.pop("MLFLOW_TRACKING_URI", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "subgraft", "tracking", "--port", "0"],
        cwd=folder,
        env=environment,
        stdout=(folder.with_suffix(".out")).open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    port = _printed_port(folder.with_suffix(".out"), process)
    wait_for(port)
    return Page(port, home, folder, process)


def processes_of(page: Page) -> list[int]:
    """Those that live of the session that the page's command began, as /proc has them."""
    processes = []
    for state in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = state.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == page.process.pid and fields[0] != "Z":
            processes.append(int(state.parent.name))
    return processes


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one run in it, which has an artifact."""
    home = tmp_path_factory.mktemp("home") / "with space"
    server = Server(home, f"sqlite:///{home}/mlflow.db")
    (home / "notes.txt").write_text("kept")
    run = server.start("demo", "monday", 1, {}, {})
    server.log_artifacts(run, home, ["notes.txt"])
    server.end(run, "FINISHED", 2)
    return home


@pytest.fixture(scope="module")
def page(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    page = start(home, tmp_path_factory.mktemp("page") / "cwd")
    try:
        yield page
    finally:
        page.process.kill()
        page.process.wait()


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
    page = start(new_home, tmp_path / "cwd")
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


@pytest.mark.slow
def test_without_the_password_nothing_is_served(page: Page) -> None:
    search = json.dumps({"max_results": 1})
    for path, method, body in (
        ("/", "GET", ""),
        ("/health", "GET", ""),
        ("/static-files/index.html", "GET", ""),
        (f"{API}/experiments/search", "POST", search),
        (f"{API}/registered-models/set-tag", "POST", json.dumps({"name": "a", "key": "b", "value": "c"})),
        ("/api/2.0/mlflow-artifacts/artifacts/a", "PUT", "theirs"),
        ("/ajax-api/3.0/mlflow/assistant/config", "GET", ""),
        ("/nowhere", "GET", ""),
    ):
        for headers in ({}, {"Authorization": basic("wrong")}, {"Authorization": basic("", "admin")}):
            assert page.ask(path, method, body, **headers)[0] == 401, path


@pytest.mark.slow
def test_with_the_password_runs_are_shown(page: Page) -> None:
    status, shown = page.entitled("/")
    assert status == 200 and b"MLflow" in shown
    _, answer = page.entitled(
        f"{API}/runs/search", "POST", json.dumps({"experiment_ids": ["1"]}), Content_Type="application/json"
    )
    (run,) = json.loads(answer)["runs"]
    assert run["info"]["run_name"] == "monday"
    assert page.entitled(f"/get-artifact?path=notes.txt&run_id={run['info']['run_id']}") == (200, b"kept")
    printed = page.folder.with_suffix(".out").read_text()
    assert f"http://127.0.0.1:{page.port}" in printed and password_in(page.home / PASSWORD) not in printed


@pytest.mark.slow
def test_pages_of_other_sites_are_refused(page: Page) -> None:
    """Of other ports too: MLflow itself lets these do everything."""
    assert page.entitled("/version", Origin=f"http://127.0.0.1:{page.port}")[0] == 200
    for origin in ("http://127.0.0.1:1", "http://localhost:1", "https://elsewhere.org", "null"):
        assert page.entitled("/version", Origin=origin)[0] == 403


@pytest.mark.slow
def test_artifacts_stay_in_the_home_and_no_command_is_run(page: Page, tmp_path: Path) -> None:
    def post(path: str, **values: object) -> tuple[int, bytes]:
        return page.entitled(path, "POST", json.dumps(values), Content_Type="application/json")

    status, made = post(f"{API}/experiments/create", name="by hand")
    assert status == 200
    experiment = json.loads(made)["experiment_id"]
    _, got = page.entitled(f"{API}/experiments/get?experiment_id={experiment}")
    assert json.loads(got)["experiment"]["artifact_location"].startswith((page.home / "mlartifacts").as_uri())
    for location in ("artifact_location", "artifactLocation"):
        status, said = post(f"{API}/experiments/create", name=location, **{location: str(tmp_path / "theirs")})
        assert status == 403 and b"one place for artifacts" in said
    run = json.loads(post(f"{API}/runs/create", experiment_id=experiment)[1])["run"]["info"]["run_id"]
    before = {path for path in page.home.rglob("*") if path.is_file() and not path.name.startswith("mlflow.db")}
    query = f"run_uuid={run}&path=theirs.txt"
    for path, method in (
        (f"/ajax-api/2.0/mlflow/upload-artifact?{query}", "POST"),
        (f"/ajax-api/2.0/mlflow/%75pload-artifact?{query}", "POST"),
        (f"//ajax-api/2.0/mlflow/upload-artifact?{query}", "POST"),
        ("/api/2.0/mlflow-artifacts/artifacts/theirs.txt", "PUT"),
        (f"{API}/model-versions/create", "POST"),
        (f"{API}/runs/create-promptlab-run", "POST"),
        ("/api/2.0/mlflow/webhooks", "POST"),
        ("/ajax-api/3.0/mlflow/scorers/register", "POST"),
        ("/ajax-api/3.0/mlflow/assistant/config", "PUT"),
        ("/ajax-api/3.0/mlflow/assistant/providers/a/health", "GET"),
        ("/ajax-api/2.0/mlflow/gateway-proxy", "POST"),
        ("/v1/traces", "POST"),
    ):
        assert page.entitled(path, method, "theirs")[0] == 404, path
    assert page.entitled("/ajax-api/3.0/mlflow/assistant/config")[1] == b'{"providers": {}, "projects": {}}\n'
    assert page.entitled("/ajax-api/2.0/mlflow/gateway-proxy?gateway_path=a")[1] == b'{"endpoints": []}\n'
    after = {path for path in page.home.rglob("*") if path.is_file() and not path.name.startswith("mlflow.db")}
    assert after == before and not list(page.folder.iterdir()) and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_it_listens_on_this_machine_only(page: Page) -> None:
    sockets = listening(psutil.Process(page.process.pid))
    assert sockets == {("127.0.0.1", page.port)}
    assert answering_elsewhere(sockets) == []


@pytest.mark.slow
@pytest.mark.parametrize("signalled", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_server_is_left_behind(home: Path, tmp_path: Path, signalled: signal.Signals) -> None:
    page = start(home, tmp_path / "cwd")
    try:
        assert page.entitled("/version")[0] == 200
        assert processes_of(page) == [page.process.pid], "the page is this process and no other"
        page.process.send_signal(signalled)
        code = page.process.wait(timeout=60)
    finally:
        page.process.kill()
    assert code == (0 if signalled == signal.SIGINT else -signalled)
    assert not processes_of(page)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", page.port)) != 0
    assert "Traceback" not in page.folder.with_suffix(".out").read_text()


@pytest.mark.parametrize(
    ("method", "path", "served"),
    [
        ("GET", "/", True),
        ("GET", "/get-artifact", True),
        ("POST", f"{API}/runs/search", True),
        ("POST", f"{API}/runs/delete", True),
        ("PATCH", f"{API}/registered-models/update", True),
        ("DELETE", f"{API}/logged-models/m-1/tags/a b", True),
        ("POST", "/ajax-api/2.0/mlflow/upload-artifact", False),
        ("POST", f"{API}/runs/search/", False),
        ("POST", f"{API}/runs/search\n", False),
        ("DELETE", f"{API}/logged-models/m-1/tags/../../upload-artifact", False),
        ("POST", f"{API}/artifacts/presigned-upload-url", False),
        ("POST", "/ajax-api/3.0/mlflow/anything/new", False),
        ("GET", "/ajax-api/3.0/mlflow/assistant/config", False),
    ],
)
def test_what_is_listed_is_open_and_all_other_changes_are_closed(method: str, path: str, served: bool) -> None:
    assert is_open(method, path) is served


def test_the_password_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / PASSWORD
    before = os.umask(0)
    try:
        password = password_in(file)
    finally:
        os.umask(before)
    assert len(password) >= 32 and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert password_in(file) == password and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602])
def test_a_password_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / PASSWORD
    password_in(file)
    file.chmod(mode)
    with pytest.raises(UserError, match=r"not yours alone.*\n.*Remove it"):
        password_in(file)


def test_an_empty_password_is_refused(tmp_path: Path) -> None:
    file = tmp_path / PASSWORD
    file.touch(0o600)
    with pytest.raises(UserError, match="is empty"):
        password_in(file)


def test_a_port_in_use_is_reported_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OperationalError, match=r"cannot listen there.*\n.*another --port"):
            serve(tmp_path, port, print)
    assert not (tmp_path / PASSWORD).exists()


def test_a_server_has_a_page_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a page of its own"):
        serve(tmp_path, 5000, print, "http://elsewhere:5000")
