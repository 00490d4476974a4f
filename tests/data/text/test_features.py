"""Files of features as users make them, and as a corpus keeps them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from subgraft.base.errors import UserError
from subgraft.data.text.features import Features, validate_features
from subgraft.data.text.tensors import StoredTensor, write_rows
from subgraft.modeling.conditioning.sources import FeatureSource

VALUES = np.arange(12, dtype=np.float32)
FORMS = [
    ({"features": VALUES.reshape(6, 2)}, [1] * 6),
    ({"features": VALUES.reshape(2, 3, 2)}, [3, 3]),
    ({"features": VALUES.reshape(6, 2), "rows": np.array([1, 3, 2])}, [1, 3, 2]),
    ({"0": VALUES[:2].reshape(1, 2), "1": VALUES[2:8].reshape(3, 2), "2": VALUES[8:].reshape(2, 2)}, [1, 3, 2]),
]


@pytest.mark.parametrize(("tensors", "counts"), FORMS)
def test_features_of_any_number_of_rows_are_read_as_they_are_asked_for(
    tensors: dict[str, np.ndarray], counts: list[int], tmp_path: Path
) -> None:
    save_file(tensors, path := tmp_path / "train.safetensors")
    features = Features.open(path, examples=len(counts))
    assert [rows.shape for rows in features] == [(count, 2) for count in counts]
    assert features.counts.tolist() == counts and features.width == 2
    assert np.array_equal(np.concatenate(list(features)).flatten(), VALUES)
    back = features.take(np.arange(len(counts))[::-1])
    assert np.array_equal(back[0], features[len(counts) - 1]) and back.counts.tolist() == counts[::-1]
    assert np.array_equal(back[1:][0], features[-2])


@pytest.mark.parametrize(("tensors", "counts"), FORMS)
def test_a_corpus_keeps_some_of_them(tensors: dict[str, np.ndarray], counts: list[int], tmp_path: Path) -> None:
    save_file(tensors, path := tmp_path / "given.safetensors")
    write_rows(path, "features", [1, 0], out := tmp_path / "kept.safetensors")
    settings, selected = Features.open(path), Features.open(out)
    assert [rows.tolist() for rows in selected] == [settings[1].tolist(), settings[0].tolist()]
    load_file(out)  # as safetensors has it


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "uint8", "bool"])
def test_the_output_is_as_safetensors_writes_it(dtype: str, tmp_path: Path) -> None:
    tensor = np.arange(30).reshape(5, 2, 3).astype(dtype)
    save_file({"image": tensor}, path := tmp_path / "given.safetensors")
    write_rows(path, "image", [4, 0, 2], out := tmp_path / "kept.safetensors")
    save_file({"image": np.ascontiguousarray(tensor[[4, 0, 2]])}, wanted := tmp_path / "wanted.safetensors")
    assert out.read_bytes() == wanted.read_bytes()


def test_a_file_is_not_read_whole(tmp_path: Path) -> None:
    """One that claims a terabyte, most of it a hole that no disk holds."""
    shape = [1 << 20, 1 << 18]
    end = 4 * shape[0] * shape[1]
    header = json.dumps({"features": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}).encode()
    header += b" " * (-len(header) % 8)
    with (path := tmp_path / "train.safetensors").open("wb") as handle:
        handle.write(len(header).to_bytes(8, "little") + header)
        handle.truncate(8 + len(header) + end)
    features = Features.open(path)
    assert len(features) == 1 << 20 and not features[len(features) - 1].any()


BROKEN = np.array([[1.0, np.inf]])


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"other": np.ones((3, 2))}, "no tensor 'features'"),
        ({"features": np.ones((3, 2))}, "features of 3 examples, but 2 texts"),
        ({"features": np.ones((2, 1, 1, 1))}, "of the shape"),
        ({"features": np.ones((2, 0, 3))}, "of the shape"),
        ({"features": np.ones((2, 2), dtype=np.int64)}, "of type I64, where floating-point numbers"),
        ({"features": np.concatenate([np.ones((1, 2)), BROKEN])}, "example 1 .counted from 0. contain NaN or infinity"),
        ({"features": np.full((2, 2), 1e300)}, "example 0 .counted from 0. contain NaN or infinity"),
        ({"0": np.ones((1, 2)), "1": BROKEN}, "example 1 .counted from 0. contain NaN or infinity"),
        (
            {"0": np.ones((1, 2)), "1": np.ones((1, 3))},
            "example 1 .counted from 0. have rows of 3 numbers, those of",
        ),
        ({"0": np.ones((1, 2)), "1": np.ones(2)}, r"example 1 .counted from 0. are of the shape \[2\]"),
        ({"0": np.ones((1, 2)), "1": np.ones((0, 2))}, r"example 1 .counted from 0. are of the shape \[0, 2\]"),
        ({"features": np.ones((3, 2)), "rows": np.array([2, 2])}, "do not match"),
        ({"features": np.ones((3, 2)), "rows": np.array([3, 0])}, "do not match"),
        ({"features": np.ones((3, 2)), "rows": np.array([1.5, 1.5])}, "do not match"),
    ],
)
def test_a_file_that_holds_something_else_is_refused(
    tensors: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    save_file(tensors, path := tmp_path / "dev.safetensors")
    with pytest.raises(UserError, match=message) as raised:
        validate_features({"dev": path}, "dev", "features", 2)
    assert raised.value.where == str(path)


def test_a_split_of_another_width_and_a_model_of_another_are_reported(tmp_path: Path) -> None:
    paths = {"train": tmp_path / "train.safetensors", "dev": tmp_path / "dev.safetensors"}
    for path, width in zip(paths.values(), (2, 3), strict=True):
        save_file({"features": np.ones((4, width))}, path)
    with pytest.raises(UserError, match="rows of 3 numbers, but rows of the train split have 2") as raised:
        validate_features(paths, "dev", "features", 4)  # type: ignore[arg-type]
    assert raised.value.where == str(paths["dev"])
    with pytest.raises(UserError, match=r"shape \[1, 3\]") as raised:
        FeatureSource(2).encode(Features.open(paths["dev"]))
    assert raised.value.where == str(paths["dev"])
    with pytest.raises(UserError, match="n from 1 to 1"):
        FeatureSource(2, rows=1).encode([np.ones((2, 2))])


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "torn.safetensors").write_bytes(b"\x10\x00")
    with pytest.raises(UserError, match="not a safetensors file"):
        StoredTensor(tmp_path / "torn.safetensors", "features")
    with pytest.raises(UserError, match="no such file"):
        StoredTensor(tmp_path / "absent.safetensors", "features")
