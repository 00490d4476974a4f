"""Files of weights that are small and would be large, or are of other things: refused, in words of our own."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from subgraft.base.errors import UserError
from subgraft.base.security.torch_weights import MOST_NAMES, read_tensors
from torch_form import compressed, nested_tuples


class Commands:
    """What a pickle does that is not a file of weights."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("obeyed",)


def _saved(value: Any) -> bytes:
    place = io.BytesIO()
    torch.save(value, place)
    return place.getvalue()


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "one number a thousand million times": (
        lambda: _saved({"a": torch.ones(1).expand(10**9)}),
        "'a' has 1,000,000,000 numbers, and 4 bytes for them",
    ),
    "the same numbers under many names": (
        lambda: _saved(dict.fromkeys([f"a{number}" for number in range(40 * MOST_NAMES)], torch.ones(10_000))),
        f"{MOST_NAMES} names at most",
    ),
    "compressed": (lambda: compressed({"a": torch.zeros(10**6)}), "its tensors have 4,000,000 bytes, and the file"),
    "without numbers": (lambda: _saved({"a": torch.ones(3, device="meta")}), "not a tensor of plain numbers"),
    "sparse": (lambda: _saved({"a": torch.eye(3).to_sparse()}), "not a tensor of plain numbers"),
    "a command": (lambda: _saved({"a": Commands()}), r"it names posix.mkdir, which does not create a tensor"),
    "a plain pickle": (lambda: pickle.dumps({"a": Commands()}, protocol=2), "it names posix.mkdir"),
    "of another protocol": (lambda: pickle.dumps({"a": 1}, protocol=4), "instructions that do not create tensors"),
    "cut short": (lambda: _saved({"a": torch.ones(300)})[:900], "PyTorch did not write this file"),
    "no pickle": (lambda: b"abc" * 100, "PyTorch did not write this file"),
    "empty": (lambda: b"", "PyTorch did not write this file"),
    "no text for a name": (lambda: _saved({3: torch.ones(2)}), "a name is of type int"),
    "a value whose text is endless": (lambda: nested_tuples(as_name=False), "'a' is not a tensor"),
}


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("kind", HOSTILE)
def test_refusals(kind: str, tmp_path: Path) -> None:
    content, message = HOSTILE[kind]
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(content())
    with pytest.raises(UserError, match=message) as refused:
        read_tensors(path)
    assert "weights_only" not in str(refused.value) and "trusted" not in str(refused.value)
    assert refused.value.hint and list(tmp_path.iterdir()) == [path]


def test_tied_and_sliced_tensors_are_read(tmp_path: Path) -> None:
    table = torch.randn(20, 6)
    tensors = {
        "shared": table,
        "encoder": table,
        "decoder": table,
        "head": table,
        "turned": table.T,
        "part": table[3:5],
    }
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    result = read_tensors(tmp_path / "pytorch_model.bin")
    assert all(torch.equal(result[name], tensor) for name, tensor in tensors.items())
    assert zipfile.is_zipfile(tmp_path / "pytorch_model.bin")
    torch.save(tensors, tmp_path / "old.bin", _use_new_zipfile_serialization=False)
    assert read_tensors(tmp_path / "old.bin").keys() == tensors.keys()
