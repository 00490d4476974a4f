"""Static embeddings of a new vocabulary's tokens, learnt from text without any model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from subgraft.errors import UserError
from subgraft.vocabulary.entry import Entry
from subgraft.vocabulary.tokenizer import Tokenizer

_VECTORS = "static_embeddings.safetensors"
RECORD = "static_embeddings.json"
_FORMAT = 1


@dataclass(frozen=True)
class StaticEmbeddings:
    """A directory of them also holds the vocabulary, so it can say what each vector stands for.

    tokenizer  the vocabulary whose tokens these are
    vectors    float32 [V, dimensions], zeros for tokens without one
    known      bool [V]: which tokens the text has often enough
    settings   how they were trained: algorithm, dimensions, window, epochs, …
    """

    tokenizer: Tokenizer
    vectors: Tensor
    known: Tensor
    settings: dict[str, Any]

    def row(self, entry: Entry) -> int | None:
        """The row of an entry; None where it has no vector.

        Raises UserError for an entry that is not of this vocabulary.
        """
        token = self.tokenizer.ids.get(entry)
        if token is None:
            raise UserError(
                f"these static embeddings are of another vocabulary: it has no {entry.surface!r}",
                mend="Train them with the vocabulary that the model is to get.",
            )
        return token if self.known[token] else None

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save(directory)
        save_file({"vectors": self.vectors.contiguous(), "known": self.known}, directory / _VECTORS)
        (directory / _VECTORS).chmod(0o644)  # safetensors leaves files that only their owner can read
        record = {"format": _FORMAT, "vocabulary": self.tokenizer.fingerprint, "settings": self.settings}
        (directory / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> StaticEmbeddings:
        """Raises UserError where `directory` holds none, or none that this version can read."""
        try:
            record = json.loads((directory / RECORD).read_text(encoding="utf-8"))
            tensors = load_file(directory / _VECTORS)
        except (OSError, ValueError, SafetensorError):
            raise UserError("no static embeddings here", where=str(directory), mend=HOW_TO_MAKE) from None
        tokenizer = Tokenizer.load(directory)
        sound = record.get("format") == _FORMAT and record.get("vocabulary") == tokenizer.fingerprint
        if not sound or tensors["known"].shape != (len(tokenizer),) or len(tensors["vectors"]) != len(tokenizer):
            raise UserError("static embeddings that do not belong to the vocabulary beside them", where=str(directory))
        return cls(tokenizer, tensors["vectors"].float(), tensors["known"].to(torch.bool), record["settings"])


HOW_TO_MAKE = "Give a directory that `subgraft vocab embed` wrote."
