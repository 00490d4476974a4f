"""Files of llama.cpp: whatever their header and their entries say."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import strategies as st

from fuzzing import answers, fuzzed
from published import CHECKPOINTS
from subgraft.base.security.gguf_header import read_gguf
from subgraft.modeling.bundle import Bundle
from subgraft.modeling.gguf_files import FILE, convert_gguf

pytest.importorskip("gguf")

from subgraft.modeling.exporting import gguf as exporting

pytestmark = pytest.mark.slow
HEADER = 1 << 12


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A file of each kind of vocabulary."""
    files = {}
    for name in ("gpt2", "Llama-2-7b"):
        folder = tmp_path_factory.mktemp("models")
        CHECKPOINTS[name].publish(folder / "model")
        (folder / "out").mkdir()
        exporting.export_gguf(folder / "model", folder / "out")
        files[name] = (folder / "out" / FILE).read_bytes()
    return files


def _read(content: bytes, place: Path) -> None:
    path, out = place / "model.gguf", place / "out"
    path.write_bytes(content)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    with answers():
        convert_gguf(path, out)
        Bundle.load(out)


@fuzzed(1000, name=st.sampled_from(("gpt2", "Llama-2-7b")), data=st.data())
def test_a_damaged_file_is_converted_or_refused(
    name: str, data: st.DataObject, sound: dict[str, bytes], tmp_path: Path
) -> None:
    content = bytearray(sound[name])
    for _ in range(data.draw(st.integers(1, 4))):
        limit = HEADER if data.draw(st.booleans()) else len(content) - 8
        start = data.draw(st.integers(0, limit))
        number = data.draw(st.sampled_from((0, 1, 255, 1 << 20, (1 << 31) - 1, 1 << 32, (1 << 63) - 1, (1 << 64) - 1)))
        change = data.draw(st.sampled_from(("number", "byte")))
        if change == "number":
            content[start : start + 8] = struct.pack("<Q", number)
        else:
            content[start] = data.draw(st.integers(0, 255))
    _read(bytes(content), tmp_path)


@fuzzed(300, name=st.sampled_from(("gpt2", "Llama-2-7b")), share=st.floats(0, 1))
def test_a_file_that_is_cut_off_is_refused(name: str, share: float, sound: dict[str, bytes], tmp_path: Path) -> None:
    _read(sound[name][: int(share * len(sound[name]))], tmp_path)


@fuzzed(300, content=st.binary(max_size=400))
def test_bytes_are_read_or_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF\x03\0\0\0" + content)
    with answers():
        read_gguf(path)
