"""Finished models decoded again by the other engine: scores of the stored outputs and of the new ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engines import chosen, main
from small_experiments import finish, tiny, written


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["transformers", "ctranslate2"])
def test_outputs_of_a_store_are_those_of_the_other_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stored: str
) -> None:
    pytest.importorskip("ctranslate2")
    _, store = finish(written(tmp_path, tiny()), f"evaluation.engine={stored}")
    records = {record.fingerprint: record for record in chosen(store, 2, "")}
    out = tmp_path / "engines.json"
    asked = ["--home", str(store.home), "--least", "2", "--out", str(out)]
    main(asked)
    first = capsys.readouterr().out
    rows = json.loads(out.read_text())
    assert {row["fingerprint"] for row in rows} == records.keys() and rows
    for row in rows:
        record = records[row["fingerprint"]]
        assert row["stored"] == stored and row["same"] == row["sentences"] == 3
        for metric in ("BLEU", "chrF"):
            assert row["scores"][stored][metric] == pytest.approx(record.summary[metric])
            assert row["signatures"][metric] == record.summary["signatures"][metric]
        assert f"{record.name}: 3 of 3 the same" in first
    main(asked)  # nothing is decoded twice
    assert ": 3 of 3 the same" not in capsys.readouterr().out


def test_a_store_without_such_models_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--home", str(tmp_path / "home"), "--out", str(tmp_path / "engines.json")])
    assert "no evaluation" in capsys.readouterr().out
