"""ALP and models: a whole study of a few updates, which goes on where it stopped, and the figures of its report."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from alp_and_quality import Vocabulary, main
from alp_report import Run, write
from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.capacity import average_log_probability
from toys import english, german

TRAIN = [*english(60), *german(60)]


def _zipped(path: Path, text: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as handle:
        handle.write("\n".join(text) + "\n")


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the study reads, made of toys: German against English are the classes."""
    labels = tmp_path / "data" / "labels"
    for split, count in (("train", 60), ("dev", 12), ("test", 12)):
        pairs = [*(("en", text) for text in english(count)), *(("de", text) for text in german(count))]
        records = [json.dumps({"label": label, "text": text}) for label, text in pairs]
        for task in ("movie-reviews", "subjectivity", "sentence-polarity"):
            _zipped(labels / task / f"{split}.jsonl.gz", records)
    _zipped(tmp_path / "data" / "en-fr" / "laws" / "train.en.gz", german(200))
    monkeypatch.setenv("SUBGRAFT_DATA", str(tmp_path / "data"))
    return tmp_path


def test_a_study_goes_on_where_it_stopped(corpora: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, sizes = corpora / "out", ["--updates", "8", "--width", "16", "--batch", "600"]
    assert main(["--out", str(out), "--vocabularies", "bpe-330", "--seeds", "1", *sizes]) == 0
    first = (out / "runs.jsonl").read_text()
    names = ["bpe-330", "bpe-340-laws", "bpe-330-wide"]
    assert main(["--out", str(out), "--vocabularies", *names, "--seeds", "1", *sizes]) == 0
    stored = (out / "runs.jsonl").read_text()
    assert stored.startswith(first)
    runs = {run.vocabulary: run for run in (Run(**json.loads(line)) for line in stored.splitlines())}
    assert list(runs) == names and (out / "alp.png").read_bytes()[:4] == b"\x89PNG"
    assert runs["bpe-330"].alp == runs["bpe-330-wide"].alp != runs["bpe-340-laws"].alp
    assert runs["bpe-330"].parameters < runs["bpe-330-wide"].parameters
    for run in runs.values():
        assert run.unigram_bits == pytest.approx(-run.alp / np.mean([len(text) for text in TRAIN]) / np.log(2))
        assert [point["updates"] for point in run.curve] == list(range(1, 9))
        assert run.curve[-1]["value"] < run.curve[0]["value"]
        assert all(0 <= score <= 1 for scores in run.scores.values() for score in scores.values())
    assert capsys.readouterr().out.count("| bpe-330 |") == 2


def test_mistakes_are_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="no such vocabulary"):
        Vocabulary.named("wordpiece-300")
    monkeypatch.delenv("SUBGRAFT_DATA", raising=False)
    assert main(["--out", str(tmp_path / "out")]) == 2
    assert "SUBGRAFT_DATA" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_the_report_is_of_vocabularies_and_not_of_seeds(tmp_path: Path) -> None:
    """Bits fall by 1 for 10 of ALP exactly; a seed more or less of one vocabulary changes no correlation."""
    counts = np.array([3, 2, 1])
    base = Run("bpe-1000", 1, 1000, 10, average_log_probability(counts, 2), 0.0, 3.0, 2.0, 0.0, [], {})
    runs = []
    for place, size in enumerate((1000, 2000, 4000, 8000)):
        for seed in (1, 2):
            points = [
                {"updates": 1, "seconds": 1.0, "value": 9.0},
                {"updates": 2, "seconds": 3.0 + place, "value": 0.0},
            ]
            points[1]["value"] = 8.0 - place + (0.1 if seed == 1 else -0.1)
            scores = {"task": {"accuracy": 0.5 + 0.1 * place, "macro_f1": 0.5}}
            runs.append(
                replace(
                    base,
                    vocabulary=f"bpe-{size}",
                    seed=seed,
                    size=size,
                    alp=-100.0 + 10 * place,
                    curve=points,
                    scores=scores,
                )
            )
    markdown = write(runs, tmp_path)
    assert markdown == (tmp_path / "table.md").read_text()
    row = next(line for line in markdown.splitlines() if line.startswith("| bits per character | -"))
    assert [cell.strip()[:7] for cell in row.split("|")[2:4]] == ["-1.00 ["] * 2
    assert "8.000 ± 0.100" in markdown and "the same after 3 CPU s" in markdown
    other = write([run for run in runs if (run.size, run.seed) != (4000, 1)], tmp_path)
    assert next(line for line in other.splitlines() if line.startswith("| task accuracy | +")).count("+1.00 [") == 3


def test_intervals_are_those_of_fishers_z(tmp_path: Path) -> None:
    """r = 0.8 of four points: tanh(atanh 0.8 ± 1.96)."""
    runs = []
    for alp, bits in zip((1.0, 2.0, 3.0, 4.0), (1.0, 3.0, 2.0, 4.0), strict=True):
        points = [{"updates": 1, "seconds": 1.0, "value": bits}]
        runs.append(Run(f"bpe-{alp:g}-laws", 1, 10, 100, alp, 0.0, 0.0, 1.0, 0.0, points, {}))
    row = next(line for line in write(runs, tmp_path).splitlines() if line.startswith("| bits per character | –"))
    low, high = np.tanh(np.arctanh(0.8) - 1.959964), np.tanh(np.arctanh(0.8) + 1.959964)
    assert row.split("|")[3].strip() == f"+0.80 [{low:+.2f}, {high:+.2f}]"
