"""Tables of positions that are computed: the same numbers as transformers', soon there, and none beyond memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers.models.marian import modeling_marian

from subgraft.base.errors import UserError
from subgraft.modeling.families import FAMILIES
from subgraft.modeling.load import load_model, save_without_tokenizers
from toys import m2m100, marian

transformers_own = modeling_marian.MarianSinusoidalPositionalEmbedding.create_weight


def _with_positions(directory: Path, positions: int) -> Path:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "max_position_embeddings": positions}))
    return directory


@pytest.mark.parametrize(("positions", "width"), [(5000, 16), (513, 24), (100, 7), (40, 1024)])
def test_sinusoids_are_those_of_transformers(positions: int, width: int) -> None:
    FAMILIES["marian"].model_class()
    table = modeling_marian.MarianSinusoidalPositionalEmbedding(positions, width)
    assert torch.equal(table.create_weight(), transformers_own(table))


def test_a_million_positions_are_computed_at_once_and_sixteen_refused(tmp_path: Path) -> None:
    """Number by number a million take minutes."""
    model = marian()
    save_without_tokenizers(model, tmp_path)
    read = load_model(_with_positions(tmp_path, 1 << 20))
    (table, _) = [module for name, module in read.named_modules() if name.endswith("embed_positions")]
    (small, _) = [module for name, module in model.named_modules() if name.endswith("embed_positions")]
    assert len(table.weight) == 1 << 20 and torch.equal(table.weight[: len(small.weight)], small.weight)
    with pytest.raises(UserError, match="parameters and positions, the weights hold"):
        load_model(_with_positions(tmp_path, 1 << 24))


def test_computed_positions_count_where_they_are_not_parameters(tmp_path: Path) -> None:
    save_without_tokenizers(m2m100(), tmp_path)
    with pytest.raises(UserError, match="parameters and positions, the weights hold"):
        load_model(_with_positions(tmp_path, 1 << 24))
