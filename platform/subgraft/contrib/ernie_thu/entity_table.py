"""Entities of a knowledge graph: their names, and an embedding for each.

entities.safetensors   the tensor `entities` [E, e]
entities.txt           their names, one a line
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from subgraft.base.errors import UserError
from subgraft.contrib.ernie_thu.stages import ENTITY_FILES

VECTORS, NAMES = ENTITY_FILES
_TENSOR = "entities"


@dataclass(frozen=True)
class EntityTable:
    """The entities of a knowledge graph. names: their distinct names.  vectors: their embeddings, float [E, e]."""

    names: Sequence[str]
    vectors: Tensor

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """The row of each entity."""
        return {name: row for row, name in enumerate(self.names)}

    def save(self, directory: Path) -> None:
        save_file({_TENSOR: self.vectors.contiguous()}, directory / VECTORS)
        (directory / NAMES).write_text("".join(f"{name}\n" for name in self.names), encoding="utf-8")

    @classmethod
    def load(cls, directory: Path) -> EntityTable:
        """Read the files of a folder. Raises UserError if they are missing, invalid or inconsistent."""
        for name in (VECTORS, NAMES):
            if not (directory / name).is_file():
                hint = f"A folder of embeddings has {VECTORS} with the tensor `{_TENSOR}`, and {NAMES}."
                raise UserError(f"no {name} here", where=str(directory), hint=hint)
        try:
            vectors = load_file(directory / VECTORS).get(_TENSOR)
            names = (directory / NAMES).read_text(encoding="utf-8").split("\n")
        except (SafetensorError, UnicodeDecodeError) as error:
            raise UserError(f"embeddings of entities cannot be read: {error}", where=str(directory)) from error
        names = names[:-1] if names and not names[-1] else names
        if vectors is None or vectors.dim() != 2 or not vectors.is_floating_point():
            raise UserError(f"no tensor `{_TENSOR}` of an embedding for each entity", where=str(directory / VECTORS))
        if len(names) != len(vectors):
            what = f"{len(names):,} names of {len(vectors):,} embeddings"
            raise UserError(what, where=str(directory / NAMES), hint="Write a name a line, in the order of the rows.")
        if len(set(names)) < len(names) or not all(names):
            raise UserError("a name occurs twice, or is empty", where=str(directory / NAMES))
        if not vectors.isfinite().all():
            raise UserError("NaN or infinity among the embeddings", where=str(directory / VECTORS))
        return cls(names, vectors.float())

    @classmethod
    def of(cls, model: PreTrainedModel) -> EntityTable:
        """The entities that a model reads; none if it reads none."""
        encoder: Any = getattr(model.base_model, "encoder", None)
        vectors = getattr(encoder, "entities", None)
        if vectors is None:
            return cls((), torch.zeros(0, 0))
        text = encoder.entity_names.cpu().numpy().tobytes().decode("utf-8")
        return cls(text.split("\n")[:-1], vectors)

    def into(self, model: PreTrainedModel) -> None:
        """Make these the entities of a model that reads entities. Raises UserError for embeddings of another width."""
        config: Any = model.config
        encoder: Any = model.base_model.encoder
        if self.vectors.shape[1] != config.entity_width:
            what = f"embeddings of entities have {self.vectors.shape[1]} dimensions, the model's {config.entity_width}"
            raise UserError(what, where="model.entity_width", hint=f"Write {self.vectors.shape[1]}.")
        stored = bytearray("".join(f"{name}\n" for name in self.names).encode())
        encoder.entities = torch.nn.Buffer(self.vectors.to(model.dtype))
        encoder.entity_names = torch.nn.Buffer(torch.frombuffer(stored, dtype=torch.uint8).clone())
        config.entity_count, config.entity_name_bytes = len(self.names), len(stored)
