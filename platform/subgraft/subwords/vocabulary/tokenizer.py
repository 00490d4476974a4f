"""One interface to SentencePiece, WordPiece and byte-level BPE vocabularies in Hugging Face directories."""

from __future__ import annotations

import gc
import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import AddedToken

from subgraft.base.errors import UserError
from subgraft.base.json_io import parse_user_object
from subgraft.base.security.terminal_escaping import say
from subgraft.base.security.text_growth import Guard, require_quick_patterns
from subgraft.base.security.tokenizer_checks import as_user_error, require_sound
from subgraft.subwords.vocabulary.directory import (
    CHAT_TEMPLATE,
    EXTRA_TOKENS,
    GENERIC_CLASS,
    SETTINGS_OF_MODELS,
    Source,
    class_settings,
    read_directory,
    reading_settings,
)
from subgraft.subwords.vocabulary.entry import BYTE_OF_CHARACTER, Entry, Mark, parse_piece, symbol_entry
from subgraft.subwords.vocabulary.segmenters import Segmenters
from subgraft.subwords.vocabulary.tokenizer_description import (
    SUBSTITUTES,
    describe,
    language_codes,
    named_special,
    special_roles,
)
from subgraft.subwords.vocabulary.tokenizer_spec import Specification, hide_tokens, replace_added

if TYPE_CHECKING:
    from subgraft.subwords.vocabulary.sentencepiece_segmenter import SentencePieceSegmenter


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause Python's garbage collector, which would double the time of creating hundreds of thousands of objects.

    If several threads enter, the one that paused the collector resumes it.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


# The end offset of a token that is not part of the text.
NO_OFFSET = -1
# Batches of at least this many texts, or characters, are segmented by SentencePiece if possible.
SENTENCEPIECE_MIN_TEXTS, _SENTENCEPIECE_MIN_CHARACTERS = 1000, 1 << 19
_CANNOT_SEGMENT = "this vocabulary cannot segment the text"


class Tokenizer:
    """A subword vocabulary and how it segments text.

    Attributes:
        mark: How pieces mark word boundaries.
        pieces: Raw piece strings by id.
        special: Ids by role, of the existing ones among "pad", "bos", "eos", "unk", "mask", "cls" and "sep".
        languages: Ids of language codes such as en_XX.
        backend: The underlying tokenizers object; must not be modified.
        guard: Limits on the growth of texts in the backend.
        config: The contents of tokenizer_config.json.
        special_ids: All ids that are not text: roles, languages, and the other tokens that the tokenizer calls special.
        symbols: User-defined symbols by id: added tokens that are not special, such as <tool_call> or a user's words.
            They are found in a text as whole units, before it is split into words, and are part of it.
        byte_ids: Ids of the 256 bytes, for byte-level vocabularies and those with byte fallback; otherwise empty.
        frequency_rank: int64 [V], 0 for the most common token: by piece score or merge rank, then id.
    """

    mark: Mark
    pieces: tuple[str, ...]
    special: Mapping[str, int]
    languages: Mapping[str, int]
    config: Mapping[str, Any]
    special_ids: frozenset[int]
    symbols: Mapping[int, str]
    byte_ids: Mapping[int, int]
    frequency_rank: NDArray[np.int64]

    @gc_paused()
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
        named = named_special(description, source.config)
        self.special_ids = description.special.union(named, self.special.values(), self.languages.values())
        self.symbols = {i: self.pieces[i] for i in sorted(description.added - self.special_ids)}
        self._unmerged_symbols = self.symbols.keys() - description.merged
        self.byte_ids = description.byte_ids
        self._costs = description.costs
        # Nothing says how common a symbol is, so it counts as rarer than any piece.
        self._costs[list(self._unmerged_symbols)] = self._costs.max(initial=0.0) + 1.0
        self.frequency_rank = np.empty(len(self.pieces), dtype=np.int64)
        # A stable sort leaves equally common pieces in the order of their ids.
        self.frequency_rank[np.argsort(self._costs, kind="stable")] = np.arange(len(self.pieces))
        with as_user_error("its regular expressions cannot be used"):
            require_quick_patterns(specification, self.backend)
        self.guard = Guard(specification, self.backend)
        self._segmenters = Segmenters(self.backend, specification, self.mark, self.guard)
        # Ordinary text is never encoded as these tokens, even if it spells one, such as "</s>" in a page about markup.
        self._reserved_ids = self.special_ids - {self.special.get("unk", -1)}

    @classmethod
    def load(cls, directory: Path) -> Tokenizer:
        """Read a Hugging Face directory: tokenizer.json, or files that transformers can convert.

        Raises:
            UserError: The directory contains no vocabulary that can be read without running its code.
        """
        source = read_directory(directory)
        try:
            with as_user_error("tokenizers cannot load it"):
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
    @gc_paused()
    def entries(self) -> tuple[Entry | None, ...]:
        """Entries by id; None for special tokens, bare marks, bytes and pieces that are not text."""
        excluded = self.special_ids | self._byte_pieces
        entries = [None if i in excluded else parse_piece(piece, self.mark) for i, piece in enumerate(self.pieces)]
        for i in self._unmerged_symbols - excluded:
            entries[i] = symbol_entry(self.symbols[i], self.mark)
        return tuple(entries)

    @cached_property
    def word_entries(self) -> tuple[Entry | None, ...]:
        """The entries without those of user-defined symbols, which no segmentation divides or joins."""
        return tuple(None if i in self.symbols else entry for i, entry in enumerate(self.entries))

    @cached_property
    @gc_paused()
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
        """SHA-256 over pieces, scores, special roles, symbols and mark; independent of the vocabulary's folder."""
        described: list[Any] = [
            self.mark.value,
            self.pieces,
            sorted(self.special.items()),
            sorted(self.languages.items()),
        ]
        described += [sorted(self.symbols)] if self.symbols else []
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
        """The vocabulary with these subwords hidden; all other tokens keep their ids."""
        removed = frozenset(entries)
        removed_ids = {i for i, entry in enumerate(self.entries) if entry in removed}
        reduced = hide_tokens(json.loads(self._source.tokenizer_json), removed_ids)
        return Tokenizer(replace(self._source, tokenizer_json=json.dumps(reduced), sentencepiece_model=None))

    @property
    def specification(self) -> Specification:
        """The parsed tokenizer.json; a copy that may be modified."""
        parsed: Specification = json.loads(self.backend.to_str())
        return parsed

    def with_specification(self, specification: Specification) -> Tokenizer:
        """A tokenizer of another specification with this one's special tokens, by role and spelling.

        The configuration names transformers' generic class, because some published classes rebuild their vocabulary by
        their own rules. Roles and settings, which such classes define in code, are written explicitly; ids are not.
        """
        config = {**self.settings, **self.roles, "tokenizer_class": GENERIC_CLASS}
        return Tokenizer(Source(json.dumps(specification), config))

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """What the configuration, and the class that it names, set on reading and writing text, without roles."""
        if "auto_map" in self.config:
            say("tokenizer_config.json: auto_map left out, because it names code", to=sys.stderr)
        of_class = {name: value for name, value in self._class_settings.items() if not name.endswith("_token")}
        stated = reading_settings(self.config, self._special_pieces)
        if not EXTRA_TOKENS.isdisjoint(stated):
            of_class.pop("extra_special_tokens", None)
        return {**of_class, **stated}

    @cached_property
    def roles(self) -> Mapping[str, str]:
        """The entries of tokenizer_config.json for special tokens: its class's, and this vocabulary's."""
        of_class = {name: value for name, value in self._class_settings.items() if name.endswith("_token")}
        own = {f"{role}_token": self.pieces[i] for role, i in self.special.items()}
        for role, substitute in SUBSTITUTES.items():  # which readers of the file need not know
            if f"{role}_token" not in self.config and self.special.get(role) == self.special.get(substitute):
                own.pop(f"{role}_token", None)
        return {**of_class, **own}

    @cached_property
    def _class_settings(self) -> Mapping[str, Any]:
        added, roles = self.backend.get_added_tokens_decoder(), self.special.values()
        extra = [token.content for i, token in sorted(added.items()) if token.special and i not in roles]
        return class_settings(self.config, self._source.model_type, self._special_pieces, extra)

    def for_model_of(self, own: Tokenizer) -> Tokenizer:
        """This vocabulary for the model whose own tokenizer is `own`.

        It gets that tokenizer's settings, except the template of conversations; its own have precedence unless they
        are the model's, such as the side of padding. If it adds no special tokens to texts and pairs, it gets the
        post-processor, with its tokens of the same roles.
        """
        inherited = reading_settings(own.settings, self._special_pieces)
        inherited.pop(CHAT_TEMPLATE, None)
        stated = {name: value for name, value in self.config.items() if name not in SETTINGS_OF_MODELS}
        of_model = {name: value for name, value in inherited.items() if name in SETTINGS_OF_MODELS}
        config = {**inherited, **stated, **of_model}
        post_processor = self._post_processor_of(own)
        if post_processor is None and config == self.config:
            return self
        text = self._source.tokenizer_json
        if post_processor is not None:
            text = json.dumps({**json.loads(text), "post_processor": post_processor}, ensure_ascii=False)
        return Tokenizer(replace(self._source, tokenizer_json=text, config=config))

    @property
    def _special_pieces(self) -> frozenset[str]:
        return frozenset(self.pieces[i] for i in self.special_ids)

    @property
    def _adds_tokens(self) -> bool:
        added: int = self.backend.num_special_tokens_to_add(True)
        return added > 0

    def _post_processor_of(self, other: Tokenizer) -> Any:
        """Another tokenizer's post-processor with this one's tokens; None if this has one or lacks a token of it."""
        trims_offsets = self.mark is other.mark and self.backend.post_processor is None
        if self._adds_tokens or not (other._adds_tokens or trims_offsets):
            return None
        ids = {self.pieces[i]: i for i in sorted(self.special_ids, reverse=True)}

        def own(piece: str, token: int) -> tuple[str, int]:
            roles = [role for role, known in other.special.items() if known == token and role in self.special]
            new = self.special[roles[0]] if roles else ids[piece]
            return self.pieces[new], new

        try:
            return replace_added(other.specification["post_processor"], own)
        except KeyError:
            return None

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
        # A single text does not start tokenizers' thread pool, which would be unsafe in a process that forks later.
        (encoding,) = self._encode_texts(
            [text], lambda batch, **options: [self.backend.encode(single, **options) for single in batch]
        )
        return self._replace_special(encoding.ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, without special tokens."""
        many = len(texts) >= SENTENCEPIECE_MIN_TEXTS or sum(map(len, texts)) >= _SENTENCEPIECE_MIN_CHARACTERS
        if many and self._by_sentencepiece is not None:
            return self._by_sentencepiece(texts)
        return self._by_tokenizers(texts)

    def _by_tokenizers(self, texts: Sequence[str]) -> list[list[int]]:
        return [
            self._replace_special(encoding.ids)
            for encoding in self._encode_texts(texts, self.backend.encode_batch_fast)
        ]

    def _encode_texts(
        self, texts: Sequence[str], encode: Callable[..., list[tokenizers.Encoding]]
    ) -> list[tokenizers.Encoding]:
        encodings: list[tokenizers.Encoding] = []
        with as_user_error(_CANNOT_SEGMENT):
            for batch in self.guard.batches(texts):
                encoded = encode(batch, add_special_tokens=False)
                self.guard.require_few_tokens(batch, encoded)
                encodings += encoded
        return encodings

    @cached_property
    def _by_sentencepiece(self) -> SentencePieceSegmenter | None:
        if self.sentencepiece_model is None:
            return None
        from subgraft.subwords.vocabulary.sentencepiece_segmenter import SentencePieceSegmenter

        specification = parse_user_object(self._source.tokenizer_json, "tokenizer.json")
        normalizer = self.backend.normalizer
        normalise = (lambda text: text) if normalizer is None else normalizer.normalize_str
        return SentencePieceSegmenter.of(self.sentencepiece_model, specification, normalise, self._by_tokenizers)

    def encode_with_ends(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Ids of each text, as in `encode_batch`, and the end offset of each token in the text, in characters.

        The offset is NO_OFFSET for bare marks, which are not part of the text, and inside a special token that the text
        spells out.
        """
        of_texts = list[tuple[list[int], list[int]]]()
        for encoding in self._encode_texts(texts, self.backend.encode_batch):
            ids, ends = list[int](), list[int]()
            for token, (_, end) in zip(encoding.ids, encoding.offsets, strict=True):
                piece_ids = self._replace_special([token])
                ids += piece_ids
                # tokenizers counts the mark that it puts before a text as the text's first character.
                is_bare = self.pieces[token] == self.mark.value
                ends += [NO_OFFSET] * (len(piece_ids) - 1) + [NO_OFFSET if is_bare else end]
            of_texts.append((ids, ends))
        return of_texts

    def encode_with_words(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Ids of each text, and the number of the word to which each token belongs, as transformers' `word_ids`.

        Words are separated by single spaces. A bare mark belongs to the word that follows it.
        """
        of_texts = list[tuple[list[int], list[int]]]()
        for text, encoding in zip(texts, self._encode_texts(texts, self.backend.encode_batch), strict=True):
            # The word of each character; that of a space is the next one.
            word_at = list(accumulate(int(character == " ") for character in text)) or [0]
            ids, words = list[int](), list[int]()
            for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
                # Where a normalizer removes a word, the mark of the next one spans it, so that only the end is certain.
                visible = 0 if self.pieces[token] == self.mark.value else len(text[start:end].rstrip(" "))
                piece_ids = self._replace_special([token])
                ids += piece_ids
                words += [word_at[max(start + visible if visible else end, 1) - 1]] * len(piece_ids)
            of_texts.append((ids, words))
        return of_texts

    def segment(self, entry: Entry) -> list[int]:
        """Ids of one entry's subwords; a continuation is segmented without a word-initial mark."""
        return self.segment_batch([entry])[0]

    def segment_batch(self, entries: Sequence[Entry]) -> list[list[int]]:
        """Ids of each entry's subwords."""
        segmented: list[list[int]] = [[] for _ in entries]
        for word_initial in (True, False):
            indices = [i for i, entry in enumerate(entries) if entry.word_initial is word_initial]
            surfaces = [entries[i].surface for i in indices]
            encodings = self._segmenters.encode_batch(surfaces, word_initial=word_initial)
            for i, ids in zip(indices, encodings, strict=True):
                segmented[i] = self._replace_special(ids)
        return segmented

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, without special tokens."""
        text_ids = [i for i in ids if i not in self.special_ids]
        with as_user_error("this vocabulary cannot join its pieces"):
            if self._misread_symbols.isdisjoint(text_ids):
                text: str = self.backend.decode(text_ids, skip_special_tokens=False)
                return text
            runs = groupby(text_ids, lambda i: self.symbols[i] if i in self._misread_symbols else None)
            return "".join(
                self.backend.decode(list(run), skip_special_tokens=False) if symbol is None else symbol * len(list(run))
                for symbol, run in runs
            )

    @cached_property
    def _misread_symbols(self) -> frozenset[int]:
        """Symbols whose letters the decoder takes for bytes: in é, the character that stands for byte 0xE9."""
        if self.mark is not Mark.BYTELEVEL:
            return frozenset()
        read_as_bytes = BYTE_OF_CHARACTER.keys()
        return frozenset(i for i, each in self.symbols.items() if not each.isascii() and read_as_bytes >= set(each))

    def _replace_special(self, ids: list[int]) -> list[int]:
        """Replace special tokens that occurred in the text by ordinary subwords."""
        if self._reserved_ids.isdisjoint(ids):
            return ids
        piece_ids: list[int] = []
        for i in ids:
            if i in self._reserved_ids:
                # Split after the first character, so that neither part is the special token again.
                parts = [self.pieces[i][:1], self.pieces[i][1:]]
                for part_ids in self._segmenters.encode_batch(parts, word_initial=False):
                    piece_ids += part_ids
            else:
                piece_ids.append(i)
        return piece_ids


def _backend(tokenizer_json: str) -> tokenizers.Tokenizer:
    backend: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True
    if backend.normalizer is not None:
        # tokenizers finds a token that normalisation empties, such as spaces in a T5, between any two characters, and
        # may search forever.
        normalised = [token for token in backend.get_added_tokens_decoder().values() if token.normalized]
        emptied = [token.content for token in normalised if not backend.normalizer.normalize_str(token.content)]
        backend.add_special_tokens([AddedToken(content, normalized=False) for content in emptied])
    return backend
