"""One interface to SentencePiece, WordPiece and byte-level BPE vocabularies in Hugging Face directories."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tokenizers
from numpy.typing import NDArray

from subgraft.base.errors import UserError
from subgraft.base.json_io import parse_user_object
from subgraft.subwords.vocabulary.directory import CHAT_TEMPLATE, Source, read_directory
from subgraft.subwords.vocabulary.entry import Entry, Mark, parse_piece
from subgraft.subwords.vocabulary.growth import Guard, require_quick_patterns
from subgraft.subwords.vocabulary.segmenters import Segmenters
from subgraft.subwords.vocabulary.tokenizer_checks import refusing, require_sound
from subgraft.subwords.vocabulary.tokenizer_description import describe, language_codes, special_roles
from subgraft.subwords.vocabulary.tokenizer_spec import Specification, hiding

if TYPE_CHECKING:
    from subgraft.subwords.vocabulary.sentencepiece_cuts import SentencePieceCuts


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn Python's garbage collector off while hundreds of thousands of objects are made: it would double the time.

    Of several threads inside, the one that turned the collector off turns it on again.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


# The end of a token that is not part of the text.
NOWHERE = -1
# From this many texts at once, or characters in them, SentencePiece is tried.
MANY, _MANY_CHARACTERS = 1000, 1 << 19
_CUT = "this vocabulary cannot cut the text"


class Tokenizer:
    """A subword vocabulary and how it segments text.

    mark            how pieces mark word boundaries
    pieces          raw piece strings by id
    special         ids by role: "pad", "bos", "eos", "unk", "mask", "cls", "sep", those that there are
    languages       ids of language codes (en_XX and the like)
    backend         the tokenizers object underneath; do not change it
    guard           limits on the growth of texts in the backend
    config          the contents of tokenizer_config.json
    special_ids     every id except ordinary subwords: roles, languages, other added tokens
    byte_ids        ids of the 256 bytes, for byte-level vocabularies and those with byte fallback; else empty
    commonness      int64 [V], rank by upstream commonness, 0 the most common: by piece score or merge rank, then id
    """

    mark: Mark
    pieces: tuple[str, ...]
    special: Mapping[str, int]
    languages: Mapping[str, int]
    config: Mapping[str, Any]
    special_ids: frozenset[int]
    byte_ids: Mapping[int, int]
    commonness: NDArray[np.int64]

    @uncollected()
    def __init__(self, source: Source) -> None:
        specification = parse_user_object(source.tokenizer_json, "tokenizer.json")
        require_sound(specification)
        description = describe(specification)
        self._source = source
        self.backend = _backend(source.tokenizer_json)
        self._byte_pieces = description.byte_pieces
        self.mark = description.mark
        self.pieces = description.pieces
        self.special = special_roles(description, source.config)
        self.languages = language_codes(description)
        self.config = source.config
        self.special_ids = description.added | frozenset(self.special.values())
        self.byte_ids = description.byte_ids
        self._costs = description.costs
        self.commonness = np.empty(len(self.pieces), dtype=np.int64)
        # A stable sort leaves equally common pieces in the order of their ids.
        self.commonness[np.argsort(self._costs, kind="stable")] = np.arange(len(self.pieces))
        with refusing("its regular expressions cannot be used"):
            require_quick_patterns(specification, self.backend)
        self.guard = Guard(specification, self.backend)
        self._segmenters = Segmenters(self.backend, specification, self.mark, self.guard)
        # Ordinary text never becomes these tokens, even if it spells them: "</s>" in a page on markup.
        self._unspeakable = self.special_ids - {self.special.get("unk", -1)}

    @classmethod
    def load(cls, directory: Path) -> Tokenizer:
        """Read a Hugging Face directory: tokenizer.json, or files that transformers can convert.

        Raises:
            UserError: The directory contains no vocabulary that can be read without running its code.
        """
        source = read_directory(directory)
        try:
            with refusing("tokenizers cannot load it"):
                return cls(source)
        except UserError as error:
            file = directory / "tokenizer.json"
            where = str(file if file.is_file() else directory)
            raise UserError(f"this vocabulary cannot be used: {error.what}", where=where, hint=error.hint) from error

    def save(self, directory: Path) -> None:
        """Write tokenizer.json, tokenizer_config.json and, if available, sentencepiece.model."""
        self._source.write(directory)

    def with_chat_template(self, template: str) -> Tokenizer:
        """The same vocabulary with another chat template."""
        return Tokenizer(replace(self._source, config={**self.config, CHAT_TEMPLATE: template}))

    @cached_property
    @uncollected()
    def entries(self) -> tuple[Entry | None, ...]:
        """Entries by id; None for special tokens, bare marks, bytes and pieces that are not text."""
        excluded = self.special_ids | self._byte_pieces
        return tuple(None if i in excluded else parse_piece(piece, self.mark) for i, piece in enumerate(self.pieces))

    @cached_property
    @uncollected()
    def ids(self) -> Mapping[Entry, int]:
        """Id of each entry; the lowest one if several pieces have the same entry."""
        by_entry: dict[Entry, int] = {}
        for i, entry in enumerate(self.entries):
            if entry is not None:
                by_entry.setdefault(entry, i)
        return by_entry

    @cached_property
    def ordinary_ids(self) -> NDArray[np.int64]:
        """Ids of all tokens with an entry, ascending: excludes special tokens, language codes, bytes and bare marks."""
        return np.array([i for i, entry in enumerate(self.entries) if entry is not None], dtype=np.int64)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over pieces, scores, special roles and mark; independent of where the vocabulary is stored."""
        described = [self.mark.value, self.pieces, sorted(self.special.items()), sorted(self.languages.items())]
        digest = hashlib.sha256(json.dumps(described).encode("ascii"))
        digest.update(self._costs.astype("<f8").tobytes())
        return digest.hexdigest()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text of tokenizer.json. Segmentation depends on this and `fingerprint` only."""
        return hashlib.sha256(self._source.tokenizer_json.encode("utf-8")).hexdigest()

    @property
    def sentencepiece_model(self) -> bytes | None:
        """The SentencePiece model with the same ids and segmentation, if available."""
        return self._source.sentencepiece_model

    def without(self, entries: Collection[Entry]) -> Tokenizer:
        """The vocabulary with these subwords hidden; all others keep their ids."""
        chosen = frozenset(entries)
        gone = {i for i, entry in enumerate(self.entries) if entry in chosen}
        reduced = hiding(json.loads(self._source.tokenizer_json), gone)
        return Tokenizer(Source(json.dumps(reduced), self._source.config))

    @property
    def specification(self) -> Specification:
        """The parsed tokenizer.json; a copy that may be modified."""
        parsed: Specification = json.loads(self.backend.to_str())
        return parsed

    def with_specification(self, specification: Specification) -> Tokenizer:
        """A tokenizer of another specification with this one's special tokens, by role and spelling.

        The configuration names transformers' generic class, because some published classes rebuild their vocabulary by
        their own rules. Roles, which such classes define in code, are written explicitly; ids are not.
        """
        config = {key: value for key, value in self.config.items() if key not in ("added_tokens_decoder", "auto_map")}
        config |= {f"{role}_token": self.pieces[i] for role, i in self.special.items()}
        config |= {"tokenizer_class": "PreTrainedTokenizerFast"}
        return Tokenizer(Source(json.dumps(specification), config))

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[Source]]:
        return Tokenizer, (self._source,)

    def __repr__(self) -> str:
        roles = ", ".join(f"{role} {self.pieces[token]}" for role, token in self.special.items())
        codes = f", {len(self.languages)} language codes" if self.languages else ""
        mark = f"words marked by {self.mark.value!r}"
        return f"<Tokenizer: {len(self):,} pieces, {mark}, special tokens: {roles or 'none'}{codes}>"

    def __len__(self) -> int:
        return len(self.pieces)

    def parse(self, piece: str) -> Entry | None:
        """The entry of a piece that is written with this vocabulary's mark, or None."""
        return parse_piece(piece, self.mark)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without special tokens around it."""
        # A single text does not start the threads of tokenizers, which a process that forks later must not have.
        (encoding,) = self._cut([text], lambda batch, **how: [self.backend.encode(each, **how) for each in batch])
        return self._ordinary(encoding.ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without special tokens."""
        many = len(texts) >= MANY or sum(map(len, texts)) >= _MANY_CHARACTERS
        if many and self._by_sentencepiece is not None:
            return self._by_sentencepiece(texts)
        return self._by_tokenizers(texts)

    def _by_tokenizers(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._ordinary(encoding.ids) for encoding in self._cut(texts, self.backend.encode_batch_fast)]

    def _cut(self, texts: Sequence[str], encode: Callable[..., list[tokenizers.Encoding]]) -> list[tokenizers.Encoding]:
        encodings: list[tokenizers.Encoding] = []
        with refusing(_CUT):
            for batch in self.guard.batches(texts):
                cut = encode(batch, add_special_tokens=False)
                self.guard.require_few_tokens(batch, cut)
                encodings += cut
        return encodings

    @cached_property
    def _by_sentencepiece(self) -> SentencePieceCuts | None:
        if self.sentencepiece_model is None:
            return None
        from subgraft.subwords.vocabulary.sentencepiece_cuts import SentencePieceCuts

        specification = parse_user_object(self._source.tokenizer_json, "tokenizer.json")
        return SentencePieceCuts.of(self.sentencepiece_model, specification, self._by_tokenizers)

    def encode_with_ends(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Ids of each text, as in `encode_batch`, and the end offset of each token in the text, in characters.

        The offset is NO_OFFSET for bare marks, which are not part of the text, and inside a special token that the text
        spells out.
        """
        return [self._with_ends(encoding) for encoding in self._cut(texts, self.backend.encode_batch)]

    def _with_ends(self, encoding: tokenizers.Encoding) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        ends: list[int] = []
        for token, (_, end) in zip(encoding.ids, encoding.offsets, strict=True):
            pieces_ids = self._ordinary([token])
            ids += pieces_ids
            # The mark that is put before a text counts as its first character.
            ends += [NOWHERE] * (len(pieces_ids) - 1) + [NOWHERE if self.pieces[token] == self.mark.value else end]
        return ids, ends

    def segment(self, entry: Entry) -> list[int]:
        """Ids of one entry's subwords; a continuation is segmented without a word-initial mark."""
        return self.segment_batch([entry])[0]

    def segment_batch(self, entries: Sequence[Entry]) -> list[list[int]]:
        """Ids of each entry's subwords."""
        segmented: list[list[int]] = [[] for _ in entries]
        for word_initial in (True, False):
            chosen = [i for i, entry in enumerate(entries) if entry.word_initial is word_initial]
            surfaces = [entries[i].surface for i in chosen]
            encodings = self._segmenters.encode_batch(surfaces, word_initial=word_initial)
            for i, ids in zip(chosen, encodings, strict=True):
                segmented[i] = self._ordinary(ids)
        return segmented

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        spoken = [i for i in ids if i not in self.special_ids]
        with refusing("this vocabulary cannot join its pieces"):
            text: str = self.backend.decode(spoken, skip_special_tokens=False)
        return text

    def _ordinary(self, ids: list[int]) -> list[int]:
        """Replace special tokens that occurred in the text by ordinary subwords."""
        if self._unspeakable.isdisjoint(ids):
            return ids
        pieces_ids: list[int] = []
        for i in ids:
            if i in self._unspeakable:
                # Cut after the first character, so that the rest is not the special token again.
                parts = [self.pieces[i][:1], self.pieces[i][1:]]
                for ids_of_part in self._segmenters.encode_batch(parts, word_initial=False):
                    pieces_ids += ids_of_part
            else:
                pieces_ids.append(i)
        return pieces_ids


def _backend(tokenizer_json: str) -> tokenizers.Tokenizer:
    backend: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    return backend
