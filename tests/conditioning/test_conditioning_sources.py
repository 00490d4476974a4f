"""Sources as tensors, and files of features as users make them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors.numpy import save_file

from sourced import settings
from subgraft.conditioning.sources import ClassSource, FeatureSource, Source, TextSource, padded, read_features
from subgraft.errors import UserError
from toys import german, german_tokenizer


def test_sources_are_padded_with_a_mask() -> None:
    tokenizer = german_tokenizer()
    encoded = TextSource(tokenizer).encode(german()[:3])
    inputs, mask = padded(encoded)
    assert mask.sum(1).tolist() == [len(tokenizer.encode(line)) + 1 for line in german()[:3]]
    assert inputs[0][mask[0] == 1][-1] == tokenizer.special["eos"] and (inputs[mask == 0] == 0).all()
    rows, mask = padded(FeatureSource(2).encode([np.ones((3, 2)), np.ones((1, 2))]))
    assert rows.shape == (2, 3, 2) and rows.dtype == torch.float32 and mask.tolist() == [[1, 1, 1], [1, 0, 0]]


def test_an_unknown_class_is_named_with_those_that_are_known() -> None:
    source: Source[str] = ClassSource(["bad", "good"])
    assert [rows.tolist() for rows in source.encode(["good", "bad"])] == [[1], [0]]
    with pytest.raises(UserError, match="unknown class 'fine'") as raised:
        source.encode(["good", "fine"])
    assert "bad, good" in str(raised.value.hint)
    with pytest.raises(UserError, match="named twice"):
        ClassSource(["good", "good"])


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (np.ones((2, 3)), r"example 1 are of the shape \[2, 3\]"),
        (np.ones((0, 2)), "example 1 are of the shape"),
        (np.ones(2), "example 1 are of the shape"),
        (np.array([[1.0, np.nan]]), "example 1 hold what is no number"),
    ],
)
def test_features_of_another_width_and_no_numbers_are_refused(rows: np.ndarray, told: str) -> None:
    with pytest.raises(UserError, match=told):
        FeatureSource(2).encode([np.ones((1, 2)), rows])


def test_features_of_any_number_of_rows_are_read(tmp_path: Path) -> None:
    values = np.arange(12, dtype=np.float32)
    for tensors, shapes in (
        ({"features": values.reshape(6, 2)}, [(1, 2)] * 6),
        ({"features": values.reshape(2, 3, 2)}, [(3, 2)] * 2),
        ({"features": values.reshape(6, 2), "rows": np.array([1, 3, 2])}, [(1, 2), (3, 2), (2, 2)]),
    ):
        save_file(tensors, tmp_path / "train.safetensors")
        found = read_features(tmp_path / "train.safetensors", len(shapes))
        assert [rows.shape for rows in found] == shapes
        assert np.array_equal(np.concatenate(found).flatten(), values)


BROKEN = np.array([[1.0, np.inf]])


@pytest.mark.parametrize(
    ("tensors", "told"),
    [
        ({"other": np.ones((3, 2))}, "no tensor 'features'"),
        ({"features": np.ones((3, 2))}, "features of 3 examples, where there are 2"),
        ({"features": np.ones((2, 1, 1, 1))}, "of the shape"),
        ({"features": np.ones((2, 0, 3))}, "of the shape"),
        ({"features": np.ones((2, 2), dtype=np.int64)}, "floating-point numbers"),
        ({"features": np.concatenate([np.ones((1, 2)), BROKEN])}, "example 1 hold what is no number"),
        ({"features": np.ones((3, 2)), "rows": np.array([2, 2])}, "do not fit"),
        ({"features": np.ones((3, 2)), "rows": np.array([3, 0])}, "do not fit"),
        ({"features": np.ones((3, 2)), "rows": np.array([1.5, 1.5])}, "do not fit"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(tensors: dict[str, np.ndarray], told: str, tmp_path: Path) -> None:
    path = tmp_path / "dev.safetensors"
    save_file(tensors, path)
    with pytest.raises(UserError, match=told) as raised:
        read_features(path, 2)
    assert raised.value.where == str(path)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "torn.safetensors").write_bytes(b"\x10\x00")
    with pytest.raises(UserError, match="no safetensors file"):
        read_features(tmp_path / "torn.safetensors")
    with pytest.raises(UserError, match="no such file"):
        read_features(tmp_path / "absent.safetensors")


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValidationError, match="own-text is for prepend"):
        settings("pseudo-self", kind="own-text")
    with pytest.raises(ValidationError, match="no multiple"):
        settings("representation").decoder.model_validate({"d_model": 10, "attention_heads": 4})
