"""MLflow's page of the runs under a home, on this machine, protected by a password.

The page is served by this process, so no server outlives it. It shows the artifacts of the home and accepts no others.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import warnings
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from subgraft.base.errors import OperationalError, UserError
from subgraft.base.security.private_files import password_in
from subgraft.base.security.tracking_gate import PASSWORD, USER, PasswordGate, refuse_other_artifact_locations
from subgraft.orchestration.tracking.compare import is_lower_better, score_names
from subgraft.orchestration.tracking.payloads import TEST
from subgraft.orchestration.tracking.server import ARTIFACTS, ENVIRONMENT, SQLITE, Server, tracking_uri

if TYPE_CHECKING:
    from starlette.types import ASGIApp


HOST = "127.0.0.1"
REPORT = "report/report.html"  # among the artifacts of an invocation
SHUTDOWN_SECONDS = 3
TRAINING = "workflowType=machine_learning"

# The initial table of an experiment: its systems, or the trials of a search, best first.
ROWS = ("tags.kind = 'system'", "tags.trial LIKE '%'")
MOST_COLUMNS = 5  # of figures, as many as fit next to names and times in a window of 1280 pixels
# Figures besides test scores, in this order: those of a training that runs and of trials.
CURVES = ("dev_score", "dev_bleu", "dev_bits_per_character", "dev_chrf", "train_loss")
OTHER_FIGURES = (*CURVES, "finetune/seconds", "sentences_per_second", "seconds")
# MLflow's state of charts: those of curves, which are in its own section of this name, before bars of single figures.
_SECTION = {"uuid": "curves", "name": "Model metrics", "display": True, "isReordered": True, "isGenerated": True}
_LINE = {"type": "LINE", "metricSectionId": "curves", "isGenerated": True, "xAxisKey": "step", "runsCountToCompare": 10}
CHARTS = {
    "isAccordionReordered": True,
    "compareRunSections": [_SECTION],
    "compareRunCharts": [
        {**_LINE, "uuid": name, "metricKey": name, "displayName": name, "yAxisKey": "metric", "range": {}}
        for name in CURVES
    ],
}
MOST_EXPERIMENTS = 20  # the newest: each costs a search of its runs whenever the page is loaded

# Runs before MLflow's own scripts, whose memory of this browser it sets: the table of each experiment, unless the
# user has changed it since; training instead of LLM applications; and no panel of the assistant, which is closed here.
START = """<script>(() => {
  const {home, address, tables, charts} = %s;
  const read = key => JSON.parse(localStorage.getItem(key) || "{}");
  const write = (key, value) => localStorage.setItem(key, JSON.stringify(value));
  write("mlflow.workflowType_v1", "machine_learning");
  write("mlflow.assistant.fab.autoOpenedOnFirstLoad_v1", true);
  write("mlflow.assistant.panelOpen_v1", false);
  const earlier = read("subgraft.tables");
  for (const [id, table] of Object.entries(tables)) {
    const key = `MLflowLocalStorage-1.1-ExperimentPage-["${id}"]-ReactComponentState`;
    const state = read(key), before = earlier.home === home && earlier.tables[id] || {};
    const changed = Object.keys(before).some(one => JSON.stringify(state[one]) !== JSON.stringify(before[one]));
    if (!changed) write(key, {...charts, ...state, ...table});
  }
  write("subgraft.tables", {home, tables});
  if (location.hash.length < 3) location.hash = address;
})()</script>"""


def serve(home: Path, port: int, say: Callable[[str], None], uri: str | None = None) -> None:
    """Serve MLflow's page of the runs under `home` on this machine's `port`, 0 for any free one, until interrupted.

    Raises UserError if runs are recorded on a server, which has its own page, or if others could read the password;
    OperationalError if the port is taken or the database is damaged.
    """
    where = tracking_uri(home, uri)
    if not where.startswith(SQLITE):
        raise UserError("runs are recorded on a server, which has a page of its own", where=where)
    key = home.absolute() / PASSWORD
    try:
        listening = socket.create_server((HOST, port))
    except OSError as error:
        message, hint = f"cannot listen there: {error.strerror}", "Give another --port, or 0 for any that is free."
        raise OperationalError(message, where=f"{HOST}:{port}", hint=hint) from error
    with listening:
        password, port = password_in(key), listening.getsockname()[1]
        server = Server(home, uri)
        app = PasswordGate(_mlflow(server), password, lambda: start_page(server))
        for name, address in addresses(server).items():
            say(f"{name:11} http://{HOST}:{port}/#{address}")
        say(f"user        {USER}\npassword    in {key}, which only you can read")
        import uvicorn

        settings = uvicorn.Config(
            app, log_level="warning", access_log=False, timeout_graceful_shutdown=SHUTDOWN_SECONDS
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run([listening])


def start_page(server: Server) -> str:
    """MLflow's own first page with our script in it, which opens the newest experiment (see `START`)."""
    page = resources.files("mlflow.server").joinpath("js", "build", "index.html").read_text(encoding="utf-8")
    with server.answering(), server.exclusive():
        newest = server.client.search_experiments(order_by=["last_update_time DESC"], max_results=MOST_EXPERIMENTS)
        tables = {each.experiment_id: table for each in newest if (table := _table(server, each.experiment_id))}
    address = next(iter(addresses(server).values()))
    shown = {"home": str(server.home), "address": address, "tables": tables, "charts": CHARTS}
    return page.replace("<head>", f"<head>{START % json.dumps(shown).replace('<', chr(92) + 'u003c')}", 1)


def addresses(server: Server) -> dict[str, str]:
    """Addresses in MLflow's page for the newest experiment: its systems, curves, best system and report; models.

    While a run trains, its curves come first.
    """
    with server.answering(), server.exclusive():
        server.set_experiment_kinds()
        run = next(iter(server.recent(1)), None)
        if run is None:
            return {"experiments": "/experiments"}
        runs = f"/experiments/{run.experiment}/runs"
        shown = {"systems": f"{runs}?{TRAINING}", "curves": f"{runs}?{TRAINING}&compareRunsMode=CHART"}
        table = _table(server, run.experiment)
        if table:
            order = f"{table['orderByKey']} {'ASC' if table['orderByAsc'] else 'DESC'}"
            first = server.client.search_runs([run.experiment], table["searchFilter"], order_by=[order], max_results=1)
            shown["best"] = f"{runs}/{first[0].info.run_id}?{TRAINING}"
        if any(file.path == REPORT for file in server.client.list_artifacts(run.id, REPORT.rpartition("/")[0])):
            shown["report"] = f"{runs}/{run.id}/artifacts/{REPORT}?{TRAINING}"
    if run.status == "RUNNING":
        shown = {"curves": shown.pop("curves"), **shown}
    return {**shown, "models": "/models"}


def _table(server: Server, experiment: str) -> dict[str, Any]:
    """MLflow's state of an experiment's table: systems or trials, the best first, with their scores as columns.

    Empty if there are none, or they have no figure yet. With a filter the list is flat; without one, systems are
    collapsed below their invocation.
    """
    for rows in ROWS:
        runs = server.newest(rows, [experiment])
        scores = [f"{TEST}/{name}" for name in score_names(runs, TEST)]
        present = {name for run in runs for name in run.metrics}
        columns = [*scores, *(name for name in OTHER_FIGURES if name in present)][:MOST_COLUMNS]
        if columns:
            return {
                "searchFilter": rows,
                "orderByKey": f"metrics.`{columns[0]}`",
                "orderByAsc": is_lower_better(columns[0]),
                "selectedColumns": [f"metrics.`{name}`" for name in columns],
            }
    return {}


def _mlflow(server: Server) -> ASGIApp:
    """MLflow's application on the database and artifacts of a home; artifacts elsewhere are refused."""
    os.environ.update(ENVIRONMENT)
    import uvicorn  # noqa: F401  by this module MLflow recognises that it is served
    from mlflow.server import handlers
    from mlflow.server.constants import ARTIFACT_ROOT_ENV_VAR, BACKEND_STORE_URI_ENV_VAR

    artifacts = (server.home / ARTIFACTS).as_uri()
    os.environ.update({BACKEND_STORE_URI_ENV_VAR: server.uri, ARTIFACT_ROOT_ENV_VAR: artifacts})
    handlers.initialize_backend_stores(server.uri, default_artifact_root=artifacts)
    refuse_other_artifact_locations(handlers._get_tracking_store())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of MLflow's, about Starlette
        from mlflow.server.fastapi_app import app
    return app  # type: ignore[no-any-return]
