"""`subgraft generate` and `evaluate` with --documents: blank lines separate documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sacrebleu

import subgraft
from subgraft.interfaces.api.documents import documents_of, evaluate_documents, translate_documents
from subgraft.interfaces.cli import main
from subgraft.modeling.bundle import Bundle
from toys import SHAPE, build_mbart, english, joint_tokenizer, multilingual_tokenizer, output_bias, t5

LINES = [*english(3), "", "", *english(2, 5), ""]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """It prefers a letter, so that it writes something."""
    tokenizer = multilingual_tokenizer()
    built = build_mbart(tokenizer, seed=3, **SHAPE | {"max_positions": 80})
    letter = next(i for i, entry in enumerate(tokenizer.entries) if entry and entry.surface == "a")
    output_bias(built)[..., letter] = 4.0
    (tmp_path / "model").mkdir()
    Bundle(built, tokenizer, tokenizer).save(tmp_path / "model")
    return tmp_path / "model"


def test_documents_are_between_blank_lines() -> None:
    assert documents_of(LINES) == [LINES[:3], LINES[5:7]]
    assert documents_of(["", " "]) == []


def test_generate_writes_the_documents_of_the_function(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    arguments = ["--model", str(model), "--input", str(tmp_path / "in.txt"), "--languages", "en-de", "--beam", "1"]
    assert main(["generate", *arguments, "--documents", "40"]) == 0
    expected = translate_documents(model, documents_of(LINES), languages=("en", "de"), block_tokens=40, beam=1)
    written = [[sentence for sentence in document if sentence.strip()] for document in expected]
    assert capsys.readouterr().out == "\n".join("".join(f"{line}\n" for line in document) for document in written)
    assert len(written) == 2


def test_evaluate_scores_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hypotheses = [*english(3), "", "And so on.", "It ends.", ""]
    for name, lines in (("out", hypotheses), ("wanted", LINES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    files = ["--hypotheses", str(tmp_path / "out"), "--references", str(tmp_path / "wanted"), "--documents"]
    assert main(["evaluate", *files, "--json"]) == 0
    scored = {score["name"]: score for score in json.loads(capsys.readouterr().out)["scores"]}
    joined = [[" ".join(document) for document in documents_of(lines)] for lines in (hypotheses, LINES)]
    assert scored["d-BLEU"]["value"] == pytest.approx(sacrebleu.corpus_bleu(joined[0], [joined[1]]).score)
    assert set(scored) == {"d-BLEU", "s-BLEU"}
    (tmp_path / "out").write_text("".join(f"{line}\n" for line in [*english(3), "", "And so on. It ends."]))
    assert main(["evaluate", *files]) == 0
    shown = capsys.readouterr().out
    assert "d-BLEU" in shown and "no s-BLEU: 1 of 2 documents have more or fewer sentences" in shown


def test_mistakes_are_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    assert main(["generate", "--model", str(model), "--input", str(tmp_path / "in.txt"), "--documents", "--chat"]) == 2
    assert "these do not apply to --documents: --chat\n  Leave them out." in capsys.readouterr().err
    (tmp_path / "two.txt").write_text("a\n\nb\n")
    files = ["--hypotheses", str(tmp_path / "in.txt"), "--references", str(tmp_path / "two.txt"), "--documents"]
    assert main(["evaluate", *files]) == 2
    message = capsys.readouterr().err
    assert "1 documents but 2 references" in message and "as many documents, with blank lines between" in message
    with pytest.raises(subgraft.UserError, match="expected a list of documents"):
        translate_documents(model, ["a", "b"])
    other = Bundle(t5(), joint_tokenizer(), joint_tokenizer())
    with pytest.raises(subgraft.UserError, match="this t5 model has no token that ends blocks"):
        translate_documents(subgraft.Model(other), [["a"]])
    assert len(evaluate_documents([["a b c d"]], [["a b c d"]]).scores) == 2
