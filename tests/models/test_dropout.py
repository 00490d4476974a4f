from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from subgraft.models.dropout import without_dropout
from subgraft.models.sides import side_names
from toys import gpt2, marian, mbart


@pytest.mark.parametrize("build", [marian, mbart, gpt2])
def test_training_mode_computes_what_evaluation_mode_does(build: Callable[[], PreTrainedModel]) -> None:
    model = build()
    ids = torch.arange(5, 17).reshape(2, 6)
    inputs = {"input_ids": ids} | ({"decoder_input_ids": ids} if "encoder" in side_names(model) else {})
    expected = model(**inputs).logits
    assert not torch.equal(model.train()(**inputs).logits, expected), "the toys have dropout"
    assert torch.equal(without_dropout(model).train()(**inputs).logits, expected)
