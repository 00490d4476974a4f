"""subgraft vocab allocate, as a user calls it: a table, files, and nothing done twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import SCRIPTS, text_in
from subgraft.interfaces.cli import main
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from toys import english

pytestmark = [pytest.mark.ray, pytest.mark.slow]


def test_an_allocation_is_made_shown_copied_and_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUBGRAFT_HOME", str(tmp_path / "home"))
    codes = ("en", "chr", "am")
    for code, script in zip(codes, SCRIPTS, strict=True):
        (tmp_path / f"{code}.txt").write_text("".join(f"{line}\n" for line in text_in(script, None, 150)))
    texts = ", ".join(f"{code}: {{files: {{train: [{code}.txt]}}}}" for code in codes)
    config = tmp_path / "config.yaml"
    config.write_text(
        f"name: three\ntexts: [{{texts: {{{texts}}}}}]\ntotals: [500]\ncurves: {{sizes: [60, 90, 120, 180]}}\n"
    )
    made = tmp_path / "made"
    assert main(["vocab", "allocate", str(config), "--out", str(made)]) == 0
    first = capsys.readouterr()
    assert "tokens/word joint" in first.out and "500 places" in first.out and "[started]  curve chr" in first.out
    tokenizer = Tokenizer.load(made / "500")
    assert len(tokenizer) <= 500 and set(tokenizer.languages) == {f"{code}_XX" for code in codes}
    assert (made / "report" / "report.html").is_file()

    assert main(["vocab", "allocate", str(config), "curves.kind=unigram"]) == 0
    again = capsys.readouterr()
    assert "[started]" not in again.out and "[cached]   curve chr" in again.out
    assert main(["vocab", "allocate", str(config), "--plan", "totals=[560]"]) == 0
    planned = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["curve", "curve", "chr", "cached"] in [line[:4] for line in planned]
    assert ["allocation", "allocation", "560", "stale"] in [line[:4] for line in planned]

    (tmp_path / "new.txt").write_text("".join(f"{line}\n" for line in english(300, 8)))
    learnt = ["vocab", "learn", "--text", str(tmp_path / "new.txt"), "--size", "350", "--like", str(made / "500")]
    assert main([*learnt, "--out", str(tmp_path / "learnt")]) == 0
    assert set(Tokenizer.load(tmp_path / "learnt").languages) == set(tokenizer.languages)
