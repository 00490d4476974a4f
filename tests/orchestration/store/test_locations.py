"""An empty store is told, with the one that may be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.orchestration.store.locations import describe_empty_store, other_store
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store, default_home
from subgraft.orchestration.tracking.local_server import require_recorded
from subgraft.pipeline.recipes.recipe import Recipe
from subgraft.pipeline.stages.stage import Stage
from toy_steps import nothing


def fill(home: Path) -> Path:
    Store(home).publish(Step(Stage("corpus", 1, nothing), "corpus", Recipe()), lambda out: {})
    return home


def test_a_store_elsewhere_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUBGRAFT_HOME", raising=False)
    project = tmp_path / "project"
    (project / "notes" / "deep").mkdir(parents=True)
    monkeypatch.chdir(project / "notes" / "deep")
    assert describe_empty_store(default_home()) == (
        f"the store {project}/notes/deep/.subgraft is empty: it is looked for in the working directory"
    )
    there = fill(project / ".subgraft")
    assert describe_empty_store(default_home()).endswith(f"; there is one in {there} (SUBGRAFT_HOME={there})")
    with pytest.raises(UserError, match=f"There is a store in {there}"):
        require_recorded()
    monkeypatch.chdir(tmp_path)
    assert other_store(default_home(), [project / "configs"]) == there, "beside the configuration"
    assert not list(tmp_path.glob(".subgraft")), "looking makes none"


def test_a_store_with_something_in_it_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where the tests are run there may be a store, which would be told
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    assert describe_empty_store(default_home()).endswith("is empty: SUBGRAFT_HOME says so")
    (tmp_path / "home" / "store" / ".partial" / "a").mkdir(parents=True)
    assert describe_empty_store(default_home()), "what is half-written is nothing"
    fill(tmp_path / "home")
    assert describe_empty_store(default_home()) == ""
