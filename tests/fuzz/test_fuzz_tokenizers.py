"""Tokenizer directories: damaged vocabularies of every kind, which are then put to use."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzzing import answers, any_text, changed, damaged, fuzzed, written
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
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
    tokenizer = Tokenizer.load(directory)
    cut = tokenizer.encode_batch(TEXTS)
    tokenizer.encode_with_ends(TEXTS)
    tokenizer.decode(cut[0][:20])
    tokenizer.segment_batch([entry for entry in tokenizer.entries[:50] if entry is not None])
    assert tokenizer.fingerprint and tokenizer.digest
    tokenizer.save(directory / "saved")


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


def _replacing(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


_PATTERNS = st.sampled_from(["a", "", "é", "▁"]).map(lambda text: {"String": text}) | st.sampled_from(
    ["", "a*", ".", "(a|aa)+$", "(?=(a+)+b)c", r"\s+", " {2,}", "(?<=a)", r"\b"]
).map(lambda text: {"Regex": text})
_CONTENTS = st.sampled_from(["", "a", "aa", "ﷺ", "a" * 100, "a" * 10_000])
_REPLACING = st.builds(_replacing, _PATTERNS, _CONTENTS)
_ISOLATED = st.builds(
    lambda pattern: {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}, _PATTERNS
)
_MARKS = st.sampled_from("▁_a").map(lambda mark: {"type": "Metaspace", "replacement": mark, "prepend_scheme": "always"})
_BYTES = st.just({"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False})
_UNICODE = st.sampled_from(["NFKC", "NFD", "Lowercase", "StripAccents"]).map(lambda kind: {"type": kind})
_PREPENDING = _CONTENTS.filter(bool).map(lambda content: {"type": "Prepend", "prepend": content})
_JOINING = st.sampled_from(
    [
        {"type": "BPEDecoder", "suffix": ""},
        {"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": False},
        {"type": "WordPiece", "prefix": "", "cleanup": True},
        {"type": "Fuse"},
    ]
)
GROWING = {
    ("normalizer", "normalizers"): _REPLACING | _UNICODE | _PREPENDING | st.just({"type": "ByteLevel"}),
    ("pre_tokenizer", "pretokenizers"): _ISOLATED | _MARKS | _BYTES,
    ("decoder", "decoders"): _REPLACING | _JOINING,
}


@fuzzed(500, kind=st.sampled_from(KINDS), component=st.sampled_from(sorted(GROWING)), data=st.data())
def test_steps_that_make_text_grow_are_used_or_refused(
    kind: str, component: tuple[str, str], data: st.DataObject, vocabularies: dict[str, Path], tmp_path: Path
) -> None:
    """Few kinds of steps, each many times, alone or in turns."""
    steps = data.draw(st.lists(GROWING[component], min_size=1, max_size=4)) * data.draw(st.integers(1, 12))
    name, sequence = component
    sound = json.loads((vocabularies[kind] / "tokenizer.json").read_text())
    shutil.rmtree(tmp_path / "vocabulary", ignore_errors=True)
    (tmp_path / "vocabulary").mkdir()
    grown = {**sound, name: {"type": "Sequence", sequence: [*steps, *filter(None, [sound[name]])]}}
    written(tmp_path / "vocabulary" / "tokenizer.json", json.dumps(grown))
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
