"""Files of text, plain and zipped: any bytes, cut, doubled, and made to expand."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st

from fuzzing import answers, any_text, fuzzed
from subgraft.config.corpora import Cleaning, Languages
from subgraft.data.sources.catalogue import check, get
from subgraft.data.sources.registry import CorpusSource
from subgraft.data.text import reading
from subgraft.evaluation.metrics.meteor import sentence_meteor

pytestmark = pytest.mark.slow

content = st.binary(max_size=200) | st.lists(any_text, max_size=8).map(
    lambda lines: "\n".join(lines).encode("utf-8", "surrogatepass")
)


_WORDS = st.lists(st.sampled_from(["the", "cat", "cats", "sat", "x" * 5000]), min_size=1, max_size=4)


@fuzzed(60, output=_WORDS, reference=_WORDS, times=st.integers(1, 300))
def test_a_looped_text_is_scored(output: list[str], reference: list[str], times: int) -> None:
    with answers():
        assert 0 <= sentence_meteor(" ".join(output * times), " ".join(reference * times), "en") <= 1


@fuzzed(1000, plain=content, zipped=st.booleans(), cut=st.integers(0, 40), junk=st.binary(max_size=8))
def test_any_bytes_are_lines_or_refused(plain: bytes, zipped: bool, cut: int, junk: bytes, tmp_path: Path) -> None:
    raw = gzip.compress(plain) if zipped else plain
    path = tmp_path / "text"
    path.write_bytes(raw[:cut] + junk + raw[cut + len(junk) :])
    with answers():
        reading.count(path)
        reading.has_byte_order_mark(path)


@fuzzed(60, line=st.binary(min_size=1, max_size=3), size=st.integers(1, 40 << 20))
def test_what_expands_is_read_soon_or_refused(line: bytes, size: int, tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write((line + b"\n") * (size // (len(line) + 1)))
    with answers():
        reading.count(path)


@fuzzed(300, source=content, target=content)
def test_any_pair_of_files_is_checked_and_taken_or_refused_by_both(
    source: bytes, target: bytes, tmp_path: Path
) -> None:
    folder, languages = tmp_path / "pairs", Languages(source="en", target="fr")
    folder.mkdir(exist_ok=True)
    (folder / "train.en").write_bytes(source)
    (folder / "train.fr").write_bytes(target)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    corpus, checked = CorpusSource(folder=str(folder)), False
    with answers():
        check(corpus, languages, tmp_path)
        checked = True
    with answers():
        get(corpus, languages, Cleaning(), tmp_path / "out", base=tmp_path)
        assert checked, "taken, and refused where it was checked"
