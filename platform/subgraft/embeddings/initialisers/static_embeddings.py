"""Static embeddings of a new vocabulary's tokens, trained on text without a language model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from subgraft.base.errors import UserError
from subgraft.embeddings.initialisers.token_tensors import load_token_tensors, not_of_its_vocabulary, save_token_tensors
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

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
