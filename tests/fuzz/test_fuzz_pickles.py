"""Weights in PyTorch's own form, damaged or made up: tensors or one message, and no code of theirs."""

from __future__ import annotations

import io
import os
import pickle
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

from fuzzing import answers, any_value, fuzzed
from subgraft.base.security.torch_weights import read_tensors

pytestmark = pytest.mark.slow

MARKER = "obeyed-by-a-pickle"


class Call:
    """What calls a function when it is unpickled."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.call


TENSORS = (
    torch.ones(3),
    torch.ones(1).expand(10**12),
    torch.ones(4).as_strided((10**6, 10**6), (0, 0)),
    torch.eye(3).to_sparse(),
    torch.ones(2, dtype=torch.complex64),
    torch.ones(2, device="meta"),
    torch.zeros(0),
    torch.nn.Parameter(torch.ones(2)),
)
CALLS = (
    Call(os.mkdir, MARKER),
    Call(os.system, f"mkdir {MARKER}"),
    Call(eval, f"__import__('os').mkdir('{MARKER}')"),
    Call(bytearray, 10**15),
    Call(getattr, "", "join"),
)
hostile = st.sampled_from(TENSORS) | st.sampled_from(CALLS) | any_value


def saved(value: Any, old: bool) -> bytes:
    place = io.BytesIO()
    torch.save(value, place, _use_new_zipfile_serialization=not old)
    return place.getvalue()


def with_pickle(content: bytes) -> bytes:
    """A zip file as PyTorch writes it, around another pickle."""
    place = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved({"a": torch.ones(2)}, False))) as parts, zipfile.ZipFile(place, "w") as out:
        for part in parts.infolist():
            out.writestr(part.filename, content if part.filename.endswith("data.pkl") else parts.read(part))
    return place.getvalue()


def read(content: bytes, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    path = place / "pytorch_model.bin"
    path.write_bytes(content)
    with warnings.catch_warnings(), answers():
        warnings.simplefilter("ignore")
        result = read_tensors(path)
        assert sum(one.numel() for one in result.values()) <= 16 * len(content)
    assert not (place / MARKER).exists()


@fuzzed(
    600, value=st.dictionaries(st.text(max_size=5) | st.integers(), hostile, max_size=3) | hostile, old=st.booleans()
)
def test_whatever_was_saved(value: Any, old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read(saved(value, old), tmp_path, monkeypatch)


@fuzzed(400, value=hostile, protocol=st.integers(0, 5), zipped=st.booleans())
def test_whatever_was_pickled(
    value: Any, protocol: int, zipped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        content = pickle.dumps({"a": value}, protocol)
    except Exception:  # of tensors that cannot be
        return
    read(with_pickle(content) if zipped else content, tmp_path, monkeypatch)


@fuzzed(1000, at=st.integers(0, 1500), junk=st.binary(min_size=1, max_size=8), cut=st.booleans(), old=st.booleans())
def test_damaged_files(
    at: int, junk: bytes, cut: bool, old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = saved({"a": torch.ones(3), "b": torch.arange(4)}, old)
    at %= len(content)
    read(content[:at] + junk + (b"" if cut else content[at + len(junk) :]), tmp_path, monkeypatch)
