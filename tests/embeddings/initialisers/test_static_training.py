from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.config.initialisers import StaticEmbeddingSettings
from subgraft.config.settings_base import StaticAlgorithm
from subgraft.embeddings.initialisers.static_embeddings import StaticEmbeddings, train_static
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from vocabularies import unigram

SMALL = StaticEmbeddingSettings(dimensions=8, epochs=2, min_count=3, ngram_buckets=100)
WORDS = ["▁red", "▁blue", "▁green", "▁one", "▁two", "▁three", "▁paint", "▁wall", "▁sum", "▁count", "▁never"]


def vocabulary() -> Tokenizer:
    return unigram(WORDS)


def sentences(count: int, seed: int = 1) -> list[str]:
    """Colours with paint and walls, numbers with sums and counts."""
    chooser = random.Random(seed)
    fields = (["red", "blue", "green"], ["paint", "wall"]), (["one", "two", "three"], ["sum", "count"])

    def sentence() -> str:
        things, around = chooser.choice(fields)
        return " ".join([*chooser.choices(around, k=2), chooser.choice(things), *chooser.choices(around, k=2)])

    return [sentence() for _ in range(count)]


SCRIPT = """
import sys
from pathlib import Path
from test_static_training import SMALL, sentences, vocabulary
from subgraft.embeddings.initialisers.static_embeddings import train_static
for algorithm in ("skip-gram", "cbow", "fasttext"):
    train_static(sentences(60), vocabulary(), algorithm, SMALL).save(Path(sys.argv[1]) / algorithm)
"""


@pytest.mark.slow
def test_the_bytes_are_the_same_in_every_process(tmp_path: Path) -> None:
    """PYTHONHASHSEED decides the order of sets and the default hash of strings."""
    for seed in ("1", "2"):
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / seed)], env=environment, check=True)
    first = {file.relative_to(tmp_path / "1"): file.read_bytes() for file in (tmp_path / "1").rglob("*.*")}
    second = {file.relative_to(tmp_path / "2"): file.read_bytes() for file in (tmp_path / "2").rglob("*.*")}
    assert len(first) >= 8
    assert first == second


@pytest.mark.parametrize("algorithm", ["skip-gram", "cbow", "fasttext"])
def test_tokens_of_similar_contexts_have_similar_vectors(algorithm: StaticAlgorithm) -> None:
    settings = SMALL.model_copy(update={"epochs": 30, "window": 2})
    tokenizer = vocabulary()
    embeddings = train_static(sentences(400), tokenizer, algorithm, settings)
    rows = [tokenizer.pieces.index(piece) for piece in ("▁red", "▁blue", "▁green", "▁one", "▁two", "▁three")]
    unit = torch.nn.functional.normalize(embeddings.vectors[rows], dim=1)
    cosines = unit @ unit.T
    assert min(cosines[:3, :3].mean(), cosines[3:, 3:].mean()) > cosines[:3, 3:].mean()


def test_seeds_and_algorithms_differ() -> None:
    lines, tokenizer = sentences(60), vocabulary()
    reseeded = SMALL.model_copy(update={"seed": 2})
    one, two = (train_static(lines, tokenizer, "skip-gram", settings).vectors for settings in (SMALL, reseeded))
    assert not torch.equal(one, two)
    for other in ("cbow", "fasttext"):
        assert not torch.equal(one, train_static(lines, tokenizer, other, SMALL).vectors)


def test_rare_tokens_and_special_ones_have_no_vector(tmp_path: Path) -> None:
    tokenizer = vocabulary()
    train_static(["never never", *sentences(60)], tokenizer, "fasttext", SMALL).save(tmp_path)
    embeddings = StaticEmbeddings.load(tmp_path)
    assert embeddings.settings["algorithm"] == "fasttext" and embeddings.settings["dimensions"] == 8
    assert [piece for piece, known in zip(tokenizer.pieces, embeddings.known, strict=True) if known] == WORDS[:-1]
    assert torch.equal(embeddings.vectors.any(dim=1), embeddings.known)


def test_too_little_text_is_refused() -> None:
    with pytest.raises(UserError, match="no token occurs 3 times"):
        train_static(["red", "blue"], vocabulary(), "skip-gram", SMALL)
