"""Datasets by mtdata id. What needs mtdata itself runs where it is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from subgraft.base.errors import UserError
from subgraft.config.corpora import Languages
from subgraft.data.sources import mtdata


def test_rows_are_split_into_files_of_equal_length(tmp_path: Path) -> None:
    rows = [b"eins\tone\n", b'zwei\ttwo\t{"score": 1}\r\n', b"drei\n", "vier\u2028f\u00fcnf\tfour\n".encode()]
    paths = [tmp_path / "de", tmp_path / "en"]
    mtdata.split_columns(rows, paths)
    assert paths[0].read_text(encoding="utf-8").split("\n") == ["eins", "zwei", "drei", "vier\u2028fünf", ""]
    assert paths[1].read_text(encoding="utf-8").split("\n") == ["one", "two", "", "four", ""]


@pytest.mark.slow
def test_an_unknown_id_and_other_languages_are_the_users_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mtdata", reason="needs the extra: pip install 'subgraft[mtdata]'")
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path))
    with pytest.raises(UserError, match="no such mtdata id"):
        mtdata.fetch("Statmt-no_such_thing-1-deu-eng", Languages(source="de", target="en"))
    with pytest.raises(UserError, match="not in the languages en and fr"):
        mtdata.fetch("Statmt-newstest_deen-2014-deu-eng", Languages(source="en", target="fr"))
    assert not list(tmp_path.iterdir())
