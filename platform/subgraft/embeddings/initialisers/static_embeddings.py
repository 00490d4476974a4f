"""Static embeddings of a new vocabulary's tokens, trained on text without a language model.

gensim trains them: word2vec (Mikolov et al. 2013) and fastText (Bojanowski et al. 2017).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.config.initialisers import StaticEmbeddingSettings
from subgraft.config.settings_base import StaticAlgorithm
from subgraft.embeddings.initialisers.token_tensors import load_token_tensors, not_of_its_vocabulary, save_token_tensors
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer


def train_static(
    lines: Iterable[str], tokenizer: Tokenizer, algorithm: StaticAlgorithm, settings: StaticEmbeddingSettings
) -> StaticEmbeddings:
    """Train vectors of the vocabulary's tokens on text. The same input gives the same bytes.

    The algorithm treats tokens as words; n-grams of fastText cover the piece with its boundary mark. Raises UserError
    if no token occurs often enough.
    """
    from gensim.models import FastText, Word2Vec

    if settings.dimensions is None:
        raise UserError("the static embeddings' dimensions are not set", where="static_embeddings.dimensions")
    pieces, special = tokenizer.pieces, tokenizer.special_ids
    sentences = [[pieces[i] for i in ids if i not in special] for ids in tokenizer.encode_batch(list(lines))]
    options: dict[str, Any] = {
        "sg": int(algorithm != "cbow"),
        "vector_size": settings.dimensions,
        "window": settings.window,
        "epochs": settings.epochs,
        "min_count": settings.min_count,
        "seed": settings.seed,
        # For reproducibility: several workers would race for rows, and Python's hash differs between processes.
        "workers": 1,
        "hashfxn": lambda text: zlib.crc32(text.encode("utf-8")),
    }
    if algorithm == "fasttext":
        options |= {"bucket": settings.ngram_buckets}
    model = (FastText if algorithm == "fasttext" else Word2Vec)(**options)
    model.build_vocab(corpus_iterable=sentences)
    if not model.wv.key_to_index:
        what = f"no token occurs {settings.min_count} times in the text of the static embeddings"
        raise UserError(what, where="static_embeddings.min_count")
    model.train(corpus_iterable=sentences, total_examples=model.corpus_count, epochs=model.epochs)
    vectors = torch.zeros(len(tokenizer), settings.dimensions)
    known = torch.zeros(len(tokenizer), dtype=torch.bool)
    for token, piece in enumerate(pieces):
        if piece in model.wv.key_to_index and token not in special:
            vectors[token] = torch.tensor(model.wv[piece])
            known[token] = True
    return StaticEmbeddings(tokenizer, vectors, known, {"algorithm": algorithm, **settings.model_dump()})


_NAME, _WHAT = "static_embeddings", "static embeddings"
RECORD = f"{_NAME}.json"


@dataclass(frozen=True)
class StaticEmbeddings:
    """Static embeddings. Their directory includes the vocabulary.

    Attributes:
        tokenizer: the vocabulary.
        vectors: float32 [V, dimensions], zeros for tokens without a vector.
        known: bool [V], the tokens that occur often enough to have a vector.
        settings: how they were trained: algorithm, dimensions, window, epochs, …
    """

    tokenizer: Tokenizer
    vectors: Tensor
    known: Tensor
    settings: dict[str, Any]

    def row(self, entry: Entry) -> int | None:
        """The index of an entry's vector; None if it has none.

        Raises UserError for an entry of another vocabulary.
        """
        token = self.tokenizer.ids.get(entry)
        if token is None:
            raise UserError(
                f"these static embeddings are of another vocabulary: it has no {entry.surface!r}",
                hint="Train them with the vocabulary that the model is to get.",
            )
        return token if self.known[token] else None

    def save(self, directory: Path) -> None:
        tensors = {"vectors": self.vectors, "known": self.known}
        save_token_tensors(directory, _NAME, self.tokenizer, tensors, {"settings": self.settings})

    @classmethod
    def load(cls, directory: Path) -> StaticEmbeddings:
        """Raises UserError if `directory` has no static embeddings, or none that this version can read."""
        tokenizer, tensors, record = load_token_tensors(directory, _NAME, _WHAT, HOW_TO_MAKE)
        if tensors["known"].shape != (len(tokenizer),) or len(tensors["vectors"]) != len(tokenizer):
            raise not_of_its_vocabulary(_WHAT, directory)
        return cls(tokenizer, tensors["vectors"].float(), tensors["known"].to(torch.bool), record["settings"])


HOW_TO_MAKE = "Give a directory that `subgraft vocab embed` wrote."
