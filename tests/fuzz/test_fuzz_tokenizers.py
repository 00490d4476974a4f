"""Tokenizer directories: damaged vocabularies of every kind, which are then put to use."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzzing import answers, any_text, changed, damaged, fuzzed, written
from subgraft.vocabulary.learn import learn
from subgraft.vocabulary.tokenizer import Tokenizer
from vocabularies import byte_level, invented

pytestmark = pytest.mark.slow

TEXTS = ("the farm </s> ab!", "a" * 50, "ß\u202e 𝔘 \x00")


def small(kind: str) -> Tokenizer:
    if kind == "byte-level":
        return byte_level(invented(100), 280)
    return learn(invented(300), kind=kind, size=80)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("vocabularies")
    for kind in KINDS:
        small(kind).save(folder / kind)
    return {path.name: path for path in folder.iterdir()}


@pytest.fixture(autouse=True, scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is imported to read a published vocabulary, which no single input is to blame for."""
    folder = tmp_path_factory.mktemp("published")
    (folder / "config.json").write_text('{"model_type": "bert"}')
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\n")
    put_to_use(folder)


KINDS = ("unigram", "bpe", "wordpiece", "byte-level")


def put_to_use(directory: Path) -> None:
    found = Tokenizer.load(directory)
    cut = found.encode_batch(TEXTS)
    found.encode_with_ends(TEXTS)
    found.decode(cut[0][:20])
    found.segment_batch([entry for entry in found.entries[:50] if entry is not None])
    assert found.fingerprint and found.digest
    found.save(directory / "saved")


@fuzzed(1500, kind=st.sampled_from(KINDS), data=st.data())
def test_a_changed_tokenizer_is_used_or_refused(
    kind: str, data: st.DataObject, vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    sound = (vocabularies[kind] / "tokenizer.json").read_text()
    text = data.draw(changed(st.just(json.loads(sound))) | damaged(st.just(sound)))
    shutil.rmtree(tmp_path / "vocabulary", ignore_errors=True)
    shutil.copytree(vocabularies[kind], tmp_path / "vocabulary")
    written(tmp_path / "vocabulary" / "tokenizer.json", text)
    with answers():
        put_to_use(tmp_path / "vocabulary")


@fuzzed(300, kind=st.sampled_from(KINDS), data=st.data())
def test_changed_settings_of_a_tokenizer_are_used_or_refused(
    kind: str, data: st.DataObject, vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    sound: dict[str, Any] = {"bos_token": "<s>", "unk_token": {"content": "<unk>"}, "added_tokens_decoder": {}}
    shutil.rmtree(tmp_path / "vocabulary", ignore_errors=True)
    shutil.copytree(vocabularies[kind], tmp_path / "vocabulary")
    written(tmp_path / "vocabulary" / "tokenizer_config.json", data.draw(changed(st.just(sound))))
    with answers():
        put_to_use(tmp_path / "vocabulary")


@fuzzed(300, place=st.integers(0, 3000), junk=st.binary(max_size=20))
def test_a_damaged_sentencepiece_model_is_used_or_refused(
    place: int, junk: bytes, vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    content = (vocabularies["unigram"] / "sentencepiece.model").read_bytes()
    place = min(place, len(content))
    (tmp_path / "spiece.model").write_bytes(content[:place] + junk + content[place + len(junk) :])
    with answers():
        put_to_use(tmp_path)


@fuzzed(200, lines=st.lists(any_text | st.sampled_from(["[UNK]", "[CLS]", "[SEP]", "##a", "a"]), max_size=12))
def test_a_vocabulary_of_any_lines_is_used_or_refused(lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    written(tmp_path / "vocab.txt", "\n".join(lines))
    with answers():
        put_to_use(tmp_path)
