"""The home of a store: an empty one is reported, with another that may be meant; an older format is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.interfaces.cli import main
from subgraft.orchestration.store.home import STORE_FORMAT, default_home, describe_empty_store, other_store
from subgraft.orchestration.store.step import Step
from subgraft.orchestration.store.store import Store
from subgraft.orchestration.tracking.server import require_recorded
from subgraft.training.stage import Stage
from toy_steps import ToyKind, nothing


def fill(home: Path) -> Path:
    Store(home).publish(Step(ToyKind("corpus", 1, nothing).of(Stage()), "corpus"), lambda out: {})
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
    assert other_store(default_home(), [project / "configs"]) == there, "in the configuration's folder"
    assert not list(tmp_path.glob(".subgraft")), "looking makes none"


def test_a_store_with_artifacts_is_not_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the tests' own working directory may have a store, which would be reported
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    assert describe_empty_store(default_home()).endswith("is empty: SUBGRAFT_HOME says so")
    (tmp_path / "home" / "store" / ".partial" / "a").mkdir(parents=True)
    assert describe_empty_store(default_home()), "what is half-written is nothing"
    fill(tmp_path / "home")
    assert describe_empty_store(default_home()) == ""


def contents(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in home.rglob("*") if path.is_file()}


def test_a_new_store_has_the_number_of_its_format(tmp_path: Path) -> None:
    home = tmp_path / "home"
    Store(home)
    assert not home.exists(), "opening a store creates nothing"
    fill(home)
    assert (home / "store" / ".format").read_text() == f"{STORE_FORMAT}\n"
    assert Store(home).home == home


@pytest.mark.parametrize(
    ("number", "complaint"),
    [(None, "was made by an older version, without a format number"), ("0\n", "has format 0"), ("\n", "was made by")],
)
def test_a_store_of_another_format_is_refused_and_left_untouched(
    number: str | None,
    complaint: str,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    home = fill(tmp_path / "old store")
    (home / "store" / ".format").unlink()
    if number is not None:
        (home / "store" / ".format").write_text(number)
    before = contents(home)
    config = str(repository / "configs" / "quickstart.yaml")
    monkeypatch.setenv("SUBGRAFT_HOME", str(home))
    for command in (["run", config], ["plan", config], ["store", "list"], ["store", "gc", "--keep", config]):
        assert main(command) == 2
        said = capsys.readouterr().err
        assert complaint in said and str(home) in said, said
        assert f"SUBGRAFT_HOME='{home}-format-{STORE_FORMAT}' subgraft run CONFIG" in said
    assert contents(home) == before
