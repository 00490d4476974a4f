"""Text as token ids, encoded once for all workers and steps that read it with the same vocabulary.

    <cache>/<key>/ids.bin          int32 [tokens], segment after segment
    <cache>/<key>/bounds.bin       int64 [segments + 1], where each segment begins, and the end of the last
    <cache>/<key>/characters.bin   int32 [segments]
    <cache>/<key>/record.json      its inputs, and the digests of those files

The key depends on the digests of the text and the vocabulary, so an entry is never out of date. The first process that
needs an entry creates it (see `mapped_arrays`). In memory a tokenised corpus is `Sequences`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

import numpy as np
import tokenizers

from subgraft.base import json_io
from subgraft.base.digest_cache import DigestCache
from subgraft.data.text.mapped_arrays import RECORD, MappedArrays
from subgraft.data.text.reading import bounded_chunks
from subgraft.data.text.segments import Text
from subgraft.subwords.vocabulary.sentencepiece_segmenter import allowed_threads


@dataclass(frozen=True)
class Sequences:
    """n sequences of token ids, as ranges of one array. Truncating and selecting do not copy tokens.

    Attributes:
        flat: All tokens, int32 [total].
        starts, ends: The range of each sequence, int64 [n].
        max_length: The maximum length of each sequence; None for no limit.
    """

    flat: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    max_length: int | None = None

    @classmethod
    def of(cls, sequences: Iterable[list[int]], max_length: int | None = None) -> Sequences:
        """Pack sequences, each truncated to at most max_length tokens."""
        packed = [np.asarray(tokens[:max_length], dtype=np.int32) for tokens in sequences]
        flat = np.concatenate(packed) if packed else np.zeros(0, dtype=np.int32)
        return cls.within(flat, offsets([len(tokens) for tokens in packed]))

    @classmethod
    def within(cls, flat: np.ndarray, bounds: np.ndarray) -> Sequences:
        """Consecutive sequences; `bounds` has the beginning of each, and the end of the last [n + 1]."""
        return cls(flat, bounds[:-1], bounds[1:])

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> list[int]:
        start, end = self.starts[index], self.ends[index]
        tokens: list[int] = self.flat[
            start : end if self.max_length is None else min(end, start + self.max_length)
        ].tolist()
        return tokens

    @property
    def lengths(self) -> np.ndarray:
        """The length of each sequence, int32 [n]; computed without a larger temporary array."""
        lengths = np.empty(len(self), dtype=np.int32)
        np.subtract(self.ends, self.starts, out=lengths, casting="unsafe")
        return lengths if self.max_length is None else np.minimum(lengths, self.max_length, out=lengths)

    @property
    def whole(self) -> np.ndarray:
        """Whether each sequence is complete, not truncated [n]."""
        if self.max_length is None:
            return np.ones(len(self), dtype=np.bool_)
        return replace(self, max_length=None).lengths <= self.max_length

    def longer(self, other: Sequences) -> np.ndarray:
        """The larger length of each pair of sequences [n]."""
        lengths = self.lengths
        np.maximum(lengths, other.lengths, out=lengths)
        return lengths

    def truncate(self, max_length: int) -> Sequences:
        """Each sequence truncated to at most max_length tokens."""
        return replace(self, max_length=max_length if self.max_length is None else min(max_length, self.max_length))

    def take(self, indices: np.ndarray) -> Sequences:
        """The sequences at these indices [m]."""
        return replace(self, starts=self.starts[indices], ends=self.ends[indices])


def offsets(lengths: Iterable[int]) -> np.ndarray:
    """The starts of consecutive items of these lengths, and the end of the last [n + 1]."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(np.fromiter(lengths, dtype=np.int64))])


def blocks(costs: np.ndarray, room: int | Sequence[int]) -> np.ndarray:
    """The starts of blocks of consecutive items, and the end of the last [b + 1].

    Each block takes as many items as fit into `room` by their costs [n], or by each of several costs [k, n] into each
    of the rooms [k], and at least one.
    """
    totals, rooms, bounds = np.cumsum(np.atleast_2d(costs), axis=1), np.atleast_1d(room), [0]
    while bounds[-1] < totals.shape[1]:
        start = bounds[-1]
        limits = rooms + (totals[:, start - 1] if start else 0)
        ends = (np.searchsorted(total, limit, side="right") for total, limit in zip(totals, limits, strict=True))
        bounds.append(max(start + 1, int(min(ends))))
    return np.array(bounds, dtype=np.int64)


_FORMAT = 1
_ARRAYS: Mapping[str, type[np.generic]] = {"ids": np.int32, "bounds": np.int64, "characters": np.int32}
# The number of segments in a chunk that is encoded at once, or of their characters.
_AT_ONCE, _CHARACTERS_AT_ONCE = 8192, 1 << 20
# The number of chunks segmented in parallel. More would only wait for Python, which processes one at a time.
_THREADS_AHEAD = 2
# A selection smaller than this share of a text is encoded without the cache, because encoding the whole text would take
# longer than it saves.
_MIN_SHARE_FOR_CACHE = 0.1


class Encoder(Protocol):
    """The required interface of a vocabulary."""

    @property
    def digest(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]: ...


@dataclass(frozen=True)
class Encoded:
    """Segments as token ids, and the number of characters of each [n]."""

    sequences: Sequences
    characters: np.ndarray

    def take(self, indices: np.ndarray) -> Encoded:
        """The segments at these indices [m]."""
        return Encoded(self.sequences.take(indices), self.characters[indices])


def encode(texts: Sequence[str], encoder: Encoder) -> Encoded:
    """The texts as token ids, segmented deterministically; mapped from the cache if the text has one."""
    if not isinstance(texts, Text) or texts.cache is None:
        return _encode_in_memory(texts, encoder)
    # A whole text needs no line offsets here.
    if texts.selected is not None and len(texts) < _MIN_SHARE_FOR_CACHE * texts.whole_size:
        return _encode_in_memory(texts, encoder)
    encoded = _load_or_encode(texts, texts.cache, encoder)
    return encoded if texts.selected is None else encoded.take(texts.selected)


@dataclass(frozen=True)
class Entry:
    """A cache entry derived from a text.

    Attributes:
        text, tokenizer: SHA-256 of the files; no tokenizer for line offsets.
        size: Bytes on disk.
        used: Time of the last access.
    """

    directory: Path
    text: str
    tokenizer: str | None
    size: int
    used: float


def entries(cache: Path) -> Iterator[Entry]:
    """The entries of a cache; unreadable ones are skipped."""
    for record in sorted(cache.glob(f"*/{RECORD}")):
        inputs = json_io.object_in(record)
        with suppress(OSError, KeyError):
            size = sum(path.stat().st_size for path in record.parent.iterdir())
            tokenizer = str(inputs["tokenizer"]) if "tokenizer" in inputs else None
            yield Entry(record.parent, str(inputs["text"]), tokenizer, size, record.stat().st_mtime)


def _encode_in_memory(texts: Sequence[str], encoder: Encoder) -> Encoded:
    ids, lengths, characters = [np.zeros(0, dtype=np.int32)], list[int](), list[int]()
    for chunk, encodings in _chunks_with_ids(texts, encoder):
        ids.append(_flat(encodings))
        lengths += map(len, encodings)
        characters += map(len, chunk)
    return Encoded(Sequences.within(np.concatenate(ids), offsets(lengths)), np.array(characters, dtype=np.int32))


def _load_or_encode(text: Text, cache: Path, encoder: Encoder) -> Encoded:
    digests = DigestCache(cache.parent)
    source = {"text": digests.of(text.path), "tokenizer": encoder.digest, "fingerprint": encoder.fingerprint}
    # The version is an input, because another version of the library may segment text differently.
    inputs = {"format": _FORMAT, "tokenizers": tokenizers.__version__, **source}
    arrays = MappedArrays(cache, inputs, _ARRAYS, digests, "encodes the same text")
    encoded = arrays.load_or_create(lambda files: _write(files, Text(text.path), encoder))
    return Encoded(Sequences.within(encoded["ids"], encoded["bounds"]), encoded["characters"])


def _write(files: Mapping[str, Path], text: Text, encoder: Encoder) -> None:
    """Writes chunk by chunk, with constant memory."""
    end = 0
    with (
        files["ids"].open("wb") as ids,
        files["bounds"].open("wb") as bounds,
        files["characters"].open("wb") as characters,
    ):
        bounds.write(np.zeros(1, dtype=np.int64).tobytes())
        for chunk, encodings in _chunks_with_ids(text, encoder):
            ids.write(_flat(encodings).tobytes())
            ends = end + np.cumsum([len(tokens) for tokens in encodings], dtype=np.int64)
            bounds.write(ends.tobytes())
            characters.write(np.array([len(line) for line in chunk], dtype=np.int32).tobytes())
            end = int(ends[-1])


def _flat(encodings: Sequence[Sequence[int]]) -> np.ndarray:
    return np.fromiter(chain.from_iterable(encodings), dtype=np.int32, count=sum(map(len, encodings)))


def _chunks_with_ids(texts: Iterable[str], encoder: Encoder) -> Iterator[tuple[list[str], list[list[int]]]]:
    """Encoded chunks in order. With several cores, libraries encode one chunk while Python processes another."""
    chunks = bounded_chunks(texts, len, _AT_ONCE, _CHARACTERS_AT_ONCE)
    # The first chunk decides which library segments the text.
    for chunk in islice(chunks, None if allowed_threads() == 1 else 1):
        yield chunk, encoder.encode_batch(chunk)
    with ThreadPoolExecutor(_THREADS_AHEAD) as pool:
        pending: deque[tuple[list[str], Future[list[list[int]]]]] = deque()
        for chunk in chunks:
            pending.append((chunk, pool.submit(encoder.encode_batch, chunk)))
            if len(pending) > _THREADS_AHEAD:
                chunk, future = pending.popleft()
                yield chunk, future.result()
        for chunk, future in pending:
            yield chunk, future.result()
