"""The folder of a fit: whose it is, and that nothing half-written is ever in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.experiments.fit.folder import Folder

IDENTITY = {"model": "m", "pairs": ["a", "b"], "quick": False}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "out")


def test_the_same_fit_may_go_on_and_another_may_not(folder: Folder) -> None:
    folder.require(IDENTITY)
    assert not folder.out.exists(), "asking writes nothing"
    folder.claim(IDENTITY)
    folder.require(IDENTITY)
    with pytest.raises(UserError, match="holds another fit, with another pairs and quick"):
        folder.require(IDENTITY | {"pairs": ["a", "c"], "quick": True})


def test_a_folder_of_something_else_is_refused(folder: Folder) -> None:
    folder.out.mkdir()
    (folder.out / "thesis.tex").touch()
    with pytest.raises(UserError, match="is not empty, and no fit of a model"):
        folder.require(IDENTITY)
    file = folder.out / "thesis.tex"
    with pytest.raises(UserError, match="a folder was expected, this is a file"):
        Folder(file).require(IDENTITY)


def test_remains_of_a_killed_run_do_not_hinder_and_are_removed(folder: Folder) -> None:
    (folder.out / ".subgraft-abc").mkdir(parents=True)
    folder.require(IDENTITY)
    folder.claim(IDENTITY)
    assert [path.name for path in folder.out.iterdir()] == ["fit.json"]


def test_a_folder_written_again_replaces_the_earlier_one(folder: Folder, tmp_path: Path) -> None:
    folder.claim(IDENTITY)
    for text in ("old", "new"):
        (tmp_path / text).mkdir()
        (tmp_path / text / text).touch()
        folder.copy(tmp_path / text, "model")
        folder.write_lines({"train.en": [text], "train.de": [text.upper()]})
    assert [path.name for path in folder.model.iterdir()] == ["new"]
    assert (folder.out / "text" / "train.de").read_text() == "NEW\n"
    assert sorted(path.name for path in folder.out.iterdir()) == ["fit.json", "model", "text"]
