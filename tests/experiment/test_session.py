"""What a run needs before it begins, and what it tells its user to look at next."""

from __future__ import annotations

import sys

import pytest

from subgraft.config.corpora import Languages
from subgraft.config.runtime import Runtime
from subgraft.errors import UserError
from subgraft.experiment.preflight import require_libraries
from subgraft.experiment.session import further_commands


def test_a_missing_deepspeed_is_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "deepspeed", raising=False)
    require_libraries(Runtime())
    with pytest.raises(UserError, match=r"runtime\.zero_stage: DeepSpeed is not installed"):
        require_libraries(Runtime(zero_stage=2))


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
    assert "generate" not in dict(further_commands(None, Languages(source="en", target="de"), "monday", uri))
