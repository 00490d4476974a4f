"""What a run needs before it begins, and the commands that it suggests next."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.preflight import require_libraries
from subgraft.experiments.session import further_commands


def test_a_missing_library_is_reported_before_anything_runs(monkeypatch: pytest.MonkeyPatch, repository: Path) -> None:
    config = repository / "configs" / "quickstart.yaml"
    plain, split, adapted = (
        load(config, Experiment, changes) for changes in ([], ["runtime.zero_stage=2"], ["finetune.train=adapters"])
    )
    monkeypatch.setattr(sys, "path", [])
    for name in ("deepspeed", "peft"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    require_libraries(plain)
    with pytest.raises(UserError, match=r"runtime\.zero_stage: DeepSpeed is not installed"):
        require_libraries(split)
    with pytest.raises(UserError, match=r"(?s)adapters needs peft, which is not installed.*subgraft\[adapters\]"):
        require_libraries(adapted)


@pytest.mark.parametrize(
    ("uri", "compare", "page"),
    [
        (None, "subgraft compare monday", "subgraft tracking"),
        ("http://there:5000", "MLFLOW_TRACKING_URI=http://there:5000 subgraft compare monday", "http://there:5000"),
        (
            "sqlite:///a b.db",
            "MLFLOW_TRACKING_URI='sqlite:///a b.db' subgraft compare monday",
            "MLFLOW_TRACKING_URI='sqlite:///a b.db' subgraft tracking",
        ),
    ],
)
def test_commands_find_a_server_that_only_the_configuration_names(uri: str | None, compare: str, page: str) -> None:
    commands = dict(further_commands("demo-en-de", Languages(source="en", target="de"), "monday", uri))
    assert (commands["compare"], commands["MLflow page"]) == (compare, page)
    assert ("MLFLOW_TRACKING_URI" in commands["generate"]) == (uri is not None)
    labels = dict(further_commands("demo-en-en", Languages(source="en", target="en"), "monday", uri, predicts=True))
    assert "generate" not in labels
    assert labels["predict"].endswith("subgraft predict models:/demo-en-en@champion --input FILE")
    assert ("MLFLOW_TRACKING_URI" in labels["predict"]) == (uri is not None)
    assert "generate" not in dict(further_commands(None, Languages(source="en", target="de"), "monday", uri))
