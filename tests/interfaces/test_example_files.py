"""`subgraft example`: its files are read by the commands that its page names, and these do what it says."""

from __future__ import annotations

import shlex
from pathlib import Path
from shutil import copytree

import pytest

from command_processes import ended
from subgraft.config.experiment import Experiment
from subgraft.config.loading import load
from subgraft.experiments.pipeline import Pipeline
from subgraft.interfaces.cli import SECTIONS, main, parser


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)  # the commands of the page name the folder as it was written
        assert main(["example", "try"]) == 0
    return folder / "try"


@pytest.fixture
def here(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the folder that `subgraft example try` makes there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    copytree(example, tmp_path / "try")
    return tmp_path


def commands(directory: Path) -> list[list[str]]:
    """The arguments of each command on the page."""
    page = (directory / "README.md").read_text(encoding="utf-8").replace("\\\n", "")
    return [shlex.split(line)[1:] for line in page.splitlines() if line.startswith("    subgraft ")]


def test_commands_of_the_page_name_files_that_are_there(here: Path) -> None:
    listed = commands(here / "try")
    out = {"fitted", "own", "assistant", "classifier"}
    for arguments in listed:
        parser().parse(arguments)
        named = [Path(each) for each in arguments if each.startswith("try/")]
        assert all((here / each).is_file() or each.parts[1] in out for each in named), arguments
    assert {"run", "fit", "generate", "evaluate", "advise", "serve", "predict"} <= {each[0] for each in listed}


@pytest.mark.parametrize("name", ["decoder", "encoder"])
def test_configurations_are_planned(name: str, here: Path) -> None:
    experiment = load(here / "try" / f"{name}.yaml", Experiment)
    assert Pipeline(experiment, here / "try").report.inputs


def test_nothing_is_overwritten(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = here / "try" / "README.md"
    page.write_text("mine")
    assert main(["example", "try"]) == 2
    assert "try: not an empty directory" in capsys.readouterr().err and page.read_text() == "mine"


def test_help_lists_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    (commands,) = (action for action in parser()._actions if action.choices and not action.option_strings)
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(commands.choices or ())


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.parametrize("model", ["decoder", "encoder"])
def test_the_commands_do_what_the_page_says(model: str, here: Path) -> None:
    listed = commands(here / "try")
    first = listed.index(["run", f"try/{model}.yaml"])
    last = next((i for i in range(first + 1, len(listed)) if listed[i][0] == "run"), len(listed))
    for arguments in listed[first:last]:
        code, said = ended(here, arguments)
        assert code == 0, said
