"""What a run tells its user to look at next."""

from __future__ import annotations

import pytest

from subgraft.experiment.session import further_commands
from subgraft.settings import Languages


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
