"""Sources as tensors, and files of features as users make them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from sourced import settings
from subgraft.base.errors import UserError
from subgraft.modeling.conditioning.sources import (
    ClassSource,
    FeatureSource,
    NoSource,
    Source,
    TextSource,
    pad_sources,
    row_counts,
)
from toys import german, german_tokenizer


def test_sources_are_padded_with_a_mask() -> None:
    tokenizer = german_tokenizer()
    encoded = TextSource(tokenizer).encode(german()[:3])
    inputs, mask = pad_sources(encoded)
    assert mask.sum(1).tolist() == [len(tokenizer.encode(line)) + 1 for line in german()[:3]]
    assert inputs[0][mask[0] == 1][-1] == tokenizer.special["eos"] and (inputs[mask == 0] == 0).all()
    rows, mask = pad_sources(FeatureSource(2).encode([np.ones((3, 2)), np.ones((1, 2))]))
    assert rows.shape == (2, 3, 2) and rows.dtype == torch.float32 and mask.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_a_text_is_cut_and_a_model_without_a_source_reads_nothing() -> None:
    tokenizer = german_tokenizer()
    whole, cut = (TextSource(tokenizer, most).encode(german()[:3]) for most in (None, 4))
    assert [rows.tolist() for rows in cut] == [[*rows[:3], tokenizer.special["eos"]] for rows in whole]
    assert row_counts(cut).tolist() == [4, 4, 4] and len(cut[1:]) == 2
    inputs, mask = pad_sources(NoSource().encode(german()[:3]))
    assert inputs.shape == mask.shape == (3, 0)


def test_an_unknown_class_is_named_with_those_that_are_known() -> None:
    source: Source[str] = ClassSource(["bad", "good"])
    assert [rows.tolist() for rows in source.encode(["good", "bad"])] == [[1], [0]]
    with pytest.raises(UserError, match="unknown class 'fine'") as raised:
        source.encode(["good", "fine"])
    assert "bad, good" in str(raised.value.hint)
    with pytest.raises(UserError, match="named twice"):
        ClassSource(["good", "good"])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.ones((2, 3)), r"example 1 \(counted from 0\) are of the shape \[2, 3\]"),
        (np.ones((0, 2)), r"example 1 \(counted from 0\) are of the shape"),
        (np.ones(2), r"example 1 \(counted from 0\) are of the shape"),
        (np.array([[1.0, np.nan]]), "example 1 contain NaN or infinity"),
    ],
)
def test_features_of_another_width_and_no_numbers_are_refused(rows: np.ndarray, message: str) -> None:
    with pytest.raises(UserError, match=message):
        FeatureSource(2).encode([np.ones((1, 2)), rows])


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValidationError, match="only prepend, and always prepend, reads own-text without an encoder"):
        settings("pseudo-self", kind="own-text")
    with pytest.raises(ValidationError, match="is not a multiple"):
        settings("representation").decoder.model_validate({"d_model": 10, "attention_heads": 4})
