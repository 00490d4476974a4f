from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import ceiling
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from toys import english, english_tokenizer, german, german_tokenizer, marian


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    for split, seed, count in (("train", 1, 60), ("dev", 2, 6), ("test", 3, 2)):
        for language, lines in (("en", english(count, seed)), ("de", german(count, seed))):
            (tmp_path / f"{split}.{language}").write_text("".join(f"{line}\n" for line in lines))
    source = CorpusSource(folder=str(tmp_path))
    build(source, Languages(source="en", target="de"), Cleaning(drop_held_out=False), tmp_path / "corpus")
    Bundle(marian(), english_tokenizer(), german_tokenizer()).save(tmp_path / "model")
    german_tokenizer(130).save(tmp_path / "vocabulary")
    places = {name: str(tmp_path / name) for name in ("model", "vocabulary", "corpus")}
    arguments = [word for name, place in places.items() for word in (f"--{name}", place)]
    return [*arguments, "--languages", "en-de", "--steps", "50", "--pairs", "8", "--out", str(tmp_path / "curves.json")]


def test_more_freedom_reaches_further_and_begins_where_the_initialisers_do(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["ceiling.py", *arguments])
    ceiling.main()
    curves = json.loads((tmp_path / "curves.json").read_text())
    assert curves["patt"]["0"] == pytest.approx(curves["avg"]["0"], abs=1e-3), "W begins at zero"
    assert curves["affine"]["0"] == curves["rows"]["0"] == curves["mean"]["0"]
    for way in ("patt", "affine", "rows"):
        assert curves[way]["50"] < curves[way]["0"], way
    assert curves["rows"]["50"] < curves["patt"]["50"], "free rows may go where no mixture can"


def test_nothing_but_the_new_rows_differs_from_the_transferred_model(arguments: list[str], tmp_path: Path) -> None:
    languages, target = Languages(source="en", target="de"), german_tokenizer(130)
    study = ceiling.Ceiling(tmp_path / "model", target, Corpus.open(tmp_path / "corpus"), languages)
    upstream = Bundle.load(tmp_path / "model")
    made, reports, _ = transplant(upstream.model, upstream.tokenizers, {"decoder": target}, Method("mean"))
    assert len(study.tokens) == reports["decoder"].unseen > 0
    assert study.mean.equal(side(made, "decoder").input.weight[study.tokens])
