"""Text as token ids, encoded once for every worker and every step that reads it with the same vocabulary.

    <cache>/<key>/ids.bin          int32 [tokens], segment after segment
    <cache>/<key>/bounds.bin       int64 [segments + 1], where each segment begins, and the end of the last
    <cache>/<key>/characters.bin   int32 [segments]
    <cache>/<key>/record.json      what it was made of, and the digests of those files

The key is made of the text's digest and the vocabulary's, so nothing about it can be out of date; what does not verify
is made again; a large file is read for that once, and again when it has changed (see `noted_digests`). Whoever needs it
first makes it, beside, and renames it; others wait. Files are mapped, not read: all
processes of a machine share one copy of what they use.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

import numpy as np
import tokenizers

from subgraft import jsontext
from subgraft.files import file_digest, sync_tree
from subgraft.locks import Lock
from subgraft.noted_digests import NotedDigests
from subgraft.text.segments import Text
from subgraft.text.sequences import Sequences, offsets

RECORD = "record.json"
_FORMAT = 1
_ARRAYS: Mapping[str, type[np.generic]] = {"ids": np.int32, "bounds": np.int64, "characters": np.int32}
_AT_ONCE = 8192
# Less than this share of a text is encoded for itself: to encode all of it would take longer than it ever saves.
_WORTH_THE_WHOLE = 0.1


class Encoder(Protocol):
    """The part of a vocabulary that is needed here."""

    @property
    def digest(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]: ...


@dataclass(frozen=True)
class Encoded:
    """Segments as token ids, and how many characters each has [n]."""

    sequences: Sequences
    characters: np.ndarray

    def take(self, places: np.ndarray) -> Encoded:
        """Those at these places [m]."""
        return Encoded(self.sequences.take(places), self.characters[places])


def encode(texts: Sequence[str], encoder: Encoder) -> Encoded:
    """The texts as token ids, plainly segmented: mapped from the cache where they are of a text that has one."""
    if not isinstance(texts, Text) or texts.cache is None or _is_small_part(texts):
        return _in_memory(texts, encoder)
    whole = _cached(texts, texts.cache, encoder)
    return whole if texts.chosen is None else whole.take(texts.chosen)


def _is_small_part(text: Text) -> bool:
    # Of a whole text, nobody has to know here where its lines begin.
    return text.chosen is not None and len(text) < _WORTH_THE_WHOLE * text.whole_size


@dataclass(frozen=True)
class Entry:
    """An encoded text in a cache. text, tokenizer: SHA-256 of the files it was made of.  used: when last opened."""

    directory: Path
    text: str
    tokenizer: str
    size: int
    used: float


def entries(cache: Path) -> Iterator[Entry]:
    """What a cache holds; anything unreadable in it is left to `encode`."""
    for record in sorted(cache.glob(f"*/{RECORD}")):
        told = jsontext.object_in(record)
        with suppress(OSError, KeyError):
            size = sum(path.stat().st_size for path in record.parent.iterdir())
            yield Entry(record.parent, str(told["text"]), str(told["tokenizer"]), size, record.stat().st_mtime)


def _in_memory(texts: Sequence[str], encoder: Encoder) -> Encoded:
    ids, lengths, characters = [np.zeros(0, dtype=np.int32)], list[int](), list[int]()
    for chunk in _chunks(texts):
        found = encoder.encode_batch(chunk)
        ids.append(_flat(found))
        lengths += map(len, found)
        characters += map(len, chunk)
    return Encoded(Sequences.within(np.concatenate(ids), offsets(lengths)), np.array(characters, dtype=np.int32))


def _cached(text: Text, cache: Path, encoder: Encoder) -> Encoded:
    digests = NotedDigests(cache.parent)
    source = {"text": digests.of(text.path), "tokenizer": encoder.digest, "fingerprint": encoder.fingerprint}
    # The library cuts text too, and its next version may do it otherwise.
    made_by = {"format": _FORMAT, "tokenizers": tokenizers.__version__, **source}
    directory = cache / hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:40]
    found = _opened(directory, digests)
    if found is None:
        cache.mkdir(parents=True, exist_ok=True)
        with Lock.wait(directory.with_suffix(".lock"), "encodes the same text"):
            found = _opened(directory, digests)
            if found is None:
                _make(directory, text, encoder, made_by)
                found = _opened(directory, digests)
    assert found is not None, f"{directory} was made and does not verify"
    return found


def _opened(directory: Path, digests: NotedDigests) -> Encoded | None:
    """What lies there, if its files' digests are right; otherwise None."""
    try:
        told = jsontext.object_in(directory / RECORD)
        for name in _ARRAYS:
            file, expected = _file(directory, name), told["files"][name]
            if digests.of(file) != expected and file_digest(file) != expected:
                return None
        os.utime(directory / RECORD)
        arrays = {name: _mapped(_file(directory, name), dtype) for name, dtype in _ARRAYS.items()}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Encoded(Sequences.within(arrays["ids"], arrays["bounds"]), arrays["characters"])


def _mapped(path: Path, dtype: type[np.generic]) -> np.ndarray:
    if path.stat().st_size == 0:
        return np.zeros(0, dtype=dtype)
    return np.memmap(path, dtype=dtype, mode="r").view(np.ndarray)


def _make(directory: Path, text: Text, encoder: Encoder, made_by: dict[str, object]) -> None:
    for left in directory.parent.glob(f"{directory.name}.partial-*"):  # by one that was killed
        shutil.rmtree(left, ignore_errors=True)
    beside = directory.with_name(f"{directory.name}.partial-{secrets.token_hex(4)}")
    beside.mkdir()
    try:
        _write(beside, Text(text.path), encoder)
        files = {name: file_digest(_file(beside, name)) for name in _ARRAYS}
        (beside / RECORD).write_text(json.dumps({**made_by, "files": files}, indent=1) + "\n", encoding="utf-8")
        sync_tree(beside)
        shutil.rmtree(directory, ignore_errors=True)  # what is there does not verify
        with suppress(OSError, KeyError):  # another machine was quicker, where locks do not reach
            beside.rename(directory)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write(directory: Path, text: Text, encoder: Encoder) -> None:
    """A chunk at a time: nothing grows with the text."""
    end = 0
    with (
        _file(directory, "ids").open("wb") as ids,
        _file(directory, "bounds").open("wb") as bounds,
        _file(directory, "characters").open("wb") as characters,
    ):
        bounds.write(np.zeros(1, dtype=np.int64).tobytes())
        for chunk in _chunks(text):
            found = encoder.encode_batch(chunk)
            ids.write(_flat(found).tobytes())
            ends = end + np.cumsum([len(tokens) for tokens in found], dtype=np.int64)
            bounds.write(ends.tobytes())
            characters.write(np.array([len(line) for line in chunk], dtype=np.int32).tobytes())
            end = int(ends[-1])


def _flat(found: Sequence[Sequence[int]]) -> np.ndarray:
    return np.fromiter(chain.from_iterable(found), dtype=np.int32, count=sum(map(len, found)))


def _chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    left = iter(texts)
    while chunk := list(islice(left, _AT_ONCE)):
        yield chunk


def _file(directory: Path, name: str) -> Path:
    return directory / f"{name}.bin"
