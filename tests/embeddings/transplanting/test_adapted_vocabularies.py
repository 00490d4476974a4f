"""Models of every family around their own vocabulary, extended and trimmed: old rows are copied as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from transformers import PreTrainedModel

import toys
from subgraft.config.settings_base import SideName
from subgraft.embeddings.transplanting.transplant import Method, transplant
from subgraft.modeling.sides import side, side_names
from subgraft.subwords.vocabulary.extend import extend
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.trim import trim

MODELS: Mapping[str, tuple[Callable[[], PreTrainedModel], Callable[[], Tokenizer]]] = {
    "gpt2": (toys.gpt2, toys.german_tokenizer),
    "llama": (toys.llama, toys.german_tokenizer),
    "t5": (toys.t5, toys.multilingual_tokenizer),
    "m2m100": (toys.m2m100, toys.multilingual_tokenizer),
    "mbart": (toys.mbart, toys.multilingual_tokenizer),
}
ADDED = 25


@pytest.mark.parametrize("family", MODELS)
@pytest.mark.parametrize("way", ["extended", "trimmed"])
def test_every_old_row_is_copied_at_input_and_output(family: str, way: str) -> None:
    build, tokenizer = MODELS[family]
    old = tokenizer()
    text = toys.german(12 if way == "trimmed" else 300, 7)
    new = trim(old, text) if way == "trimmed" else extend(old, text, ADDED)
    names: tuple[SideName, ...] = side_names(build())
    made = transplant(build(), dict.fromkeys(names, old), dict.fromkeys(names, new), Method("mean"))
    before, after = side(build(), "decoder"), side(made.model, "decoder")
    old_ids = [old.pieces.index(piece) for piece in new.pieces if piece in set(old.pieces)]
    assert len(after.input.weight) == len(new) and len(old_ids) == (len(old) if way == "extended" else len(new))
    assert torch.equal(after.input.weight[: len(old_ids)], before.input.weight[old_ids])
    if before.output is not None:
        assert after.output is not None
        assert torch.equal(after.output.weight[: len(old_ids)], before.output.weight[old_ids])
    assert made.reports["decoder"].unseen == (ADDED if way == "extended" else 0)
