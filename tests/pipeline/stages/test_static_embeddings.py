from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from subgraft.config.corpora import Cleaning, Languages
from subgraft.config.initialisers import StaticEmbeddingSettings
from subgraft.data.sources.corpus_builder import build
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text.corpus import Corpus
from subgraft.embeddings.initialisers.static_embeddings import StaticEmbeddings, train_static
from subgraft.modeling.bundle import Bundle
from subgraft.pipeline.compute import transfer
from subgraft.pipeline.stages.models import TransferStage
from subgraft.pipeline.stages.vocabularies import StaticEmbeddingsStage
from toys import english, fitted_tokenizer, german, mbart, multilingual_tokenizer

SETTINGS = StaticEmbeddingSettings(dimensions=16, epochs=2, min_count=2, ngram_buckets=100)
NOWHERE: Any = None  # neither stage looks at its context


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for language, lines in (("en", english(150)), ("de", german(150, 7))):
        (folder / f"train.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    source = CorpusSource(files={"train": (str(folder / "train.en"), str(folder / "train.de"))})
    cleaning = Cleaning(max_ratio=50.0)
    return build(source, Languages(source="en", target="de"), cleaning, folder / "built").directory


def run_static(corpus: Path, out: Path) -> dict[str, Any]:
    fitted_tokenizer().save(out / "vocabulary")
    recipe = StaticEmbeddingsStage(side="target", algorithm="fasttext", settings=SETTINGS)
    inputs = {"corpus": corpus, "vocabulary": out / "vocabulary"}
    return dict(transfer.train_static_embeddings(recipe, inputs, out / "static", NOWHERE))


def test_the_stage_trains_on_its_side_of_the_training_text(corpus: Path, tmp_path: Path) -> None:
    summary = run_static(corpus, tmp_path)
    embeddings = StaticEmbeddings.load(tmp_path / "static")
    lines = Corpus.open(corpus).lines("train", "target")
    assert torch.equal(embeddings.vectors, train_static(lines, fitted_tokenizer(), "fasttext", SETTINGS).vectors)
    assert summary["known"] == int(embeddings.known.sum()) > 50
    assert summary["tokens"] == len(fitted_tokenizer())


@pytest.mark.parametrize("method", ["word2vec", "word2vec-mapped", "cbow", "focus", "wechsel", "omp", "locally-linear"])
def test_a_transfer_takes_them_as_an_input(method: str, corpus: Path, tmp_path: Path) -> None:
    run_static(corpus, tmp_path)
    Bundle(mbart(), multilingual_tokenizer(), multilingual_tokenizer()).save(tmp_path / "model")
    (tmp_path / "out").mkdir()
    recipe = TransferStage(method=method, sides=("decoder",), max_similar=10, seed=0)
    inputs = {"model": tmp_path / "model", "vocabulary/decoder": tmp_path / "vocabulary"}
    inputs["static/decoder"] = tmp_path / "static"
    summary = transfer.run_transfer(recipe, inputs, tmp_path / "out", NOWHERE)
    known = StaticEmbeddings.load(tmp_path / "static").known
    target = fitted_tokenizer()
    lacking = [e for e, i in target.ids.items() if e not in multilingual_tokenizer().ids and not known[i]]
    side: Any = summary["sides"]
    assert sum(side["decoder"]["fallbacks"].values()) == len(lacking)
    table = Bundle.load(tmp_path / "out").model.get_output_embeddings().weight
    assert table.shape[0] == len(target)
    assert torch.isfinite(table).all()
