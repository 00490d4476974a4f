"""Byte-level tokens that are a part of a character are made of their upstream pieces."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from published import CHECKPOINTS
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.sides import side
from subgraft.subwords.vocabulary.entry import BYTE_OF_CHARACTER
from subgraft.subwords.vocabulary.extend import Extender

CHINESE = ("这些函数返回一个新的列表", "这个函数不返回列表", "列表的元素是字符串", "字符串不是列表") * 8


def bytes_of(piece: str) -> bytes:
    return bytes(BYTE_OF_CHARACTER[character] for character in piece)


@pytest.mark.parametrize("method", ["mean", "avg", "reconstruction", "random"])
def test_a_part_of_a_character_is_the_mean_of_its_pieces(method: str, tmp_path: Path) -> None:
    CHECKPOINTS["gpt2"].publish(tmp_path)
    bundle = Bundle.load(tmp_path)
    old, new = bundle.decoder, Extender.of(bundle.decoder, CHINESE).extend_at_most(60)
    table = side(bundle.model, "decoder").input.weight.detach().clone()
    rows = side(transplant(bundle.model, bundle.tokenizers, {"decoder": new}, Method(method)).model, "decoder").input
    partial = [token for token in range(len(old), len(new)) if new.entries[token] is None]
    assert len(partial) > 10
    ids = {bytes_of(piece): token for token, piece in enumerate(old.pieces) if token not in old.special_ids}
    for token in partial:
        pieces = [ids[bytes([byte])] for byte in bytes_of(new.pieces[token])]  # this vocabulary has no Chinese merge
        expected = table[pieces].mean(dim=0)
        assert torch.allclose(rows.weight[token], expected, atol=1e-6) == (method != "random")
