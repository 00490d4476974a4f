"""The gate in front of MLflow's page: its password, other sites' pages, and requests that are closed."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from listening import answering_elsewhere, listening
from subgraft.base.security.private_files import password_in
from subgraft.base.security.tracking_gate import PASSWORD, is_open
from subgraft.orchestration.tracking.server import Server
from tracking_servers import Page, basic, processes_of, start_page_process

API = "/api/2.0/mlflow"


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
    page = start_page_process(home, tmp_path_factory.mktemp("page") / "cwd")
    try:
        yield page
    finally:
        page.process.kill()
        page.process.wait()


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
    page = start_page_process(home, tmp_path / "cwd")
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
