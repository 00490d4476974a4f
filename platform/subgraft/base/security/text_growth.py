"""Limits on how much a vocabulary's normalizer, pre-tokenizer and decoder may expand a text.

A tokenizer.json of two kilobytes can double each letter thirty times, and tokenizers would run out of memory. So the
expansion factor of each step is read from the specification before anything is built, and the factors are multiplied.
The worst case of honest vocabularies is far above their actual expansion, so a long text is measured in slices before
it is segmented as a whole.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from subgraft.base.errors import UserError
from subgraft.base.security.limits import (
    DECODED_GROWTH,
    TEXT_GROWTH,
    TOKENIZER_BYTES,
    TOKENIZER_STEPS,
    TOKENS_OF_CHARACTER,
    Limit,
)

if TYPE_CHECKING:
    import tokenizers

Step: TypeAlias = Mapping[str, Any]

# The limit in bytes on the expanded texts of a batch, and the number of tokens that a text of any length may have.
MAX_BATCH_BYTES, _FREE_TOKENS = 1 << 24, 4096
COMPONENTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
# The limit on processor time, in seconds, for short repetitive texts; a harmless pattern takes a thousandth of it.
_PATTERN_SECONDS = 0.5
_PROBE_LENGTHS, _PROBES, _MAX_PROBES = (16, 64, 256), ("a", "A", "1", " ", "\n", "-", "é", "中"), 64
# A regular expression that matches one character, or a minimum number of repetitions of it.
_ONE_CHARACTER = re.compile(r"(?:[ \w]|\\[sdw])(?:\+|\{(\d+),\})?")


@dataclass(frozen=True)
class Growth:
    """An upper bound on the expanded size: `factor` bytes for each byte of a text, plus `added` bytes."""

    factor: float = 1.0
    added: float = 0.0

    def then(self, other: Growth) -> Growth:
        return Growth(self.factor * other.factor, self.added * other.factor + other.added)

    def of(self, size: int) -> float:
        """The largest possible size of an expanded text of `size` bytes."""
        return self.factor * size + self.added


def require_bounded(specification: Mapping[str, Any]) -> None:
    """Raises UserError if a component of a parsed tokenizer.json is too large, or could expand a text too much."""
    for name in COMPONENTS:
        size = len(json.dumps(specification.get(name)))
        if size > TOKENIZER_BYTES.value:
            raise UserError(f"its {name} has {size:,} bytes", hint=TOKENIZER_BYTES.hint)
    for name in ("normalizer", "pre_tokenizer", "decoder"):
        steps = len(component_steps(specification.get(name)))
        if steps > TOKENIZER_STEPS.value:
            raise UserError(f"its {name} has {steps:,} steps", hint=TOKENIZER_STEPS.hint)
    _require_growth(_growth(specification, "normalizer"), TEXT_GROWTH, "its normalizer")
    _require_growth(text_growth(specification), TEXT_GROWTH, "its normalizer and pre_tokenizer")
    _require_growth(_growth(specification, "decoder"), DECODED_GROWTH, "its decoder")
    _require_short_added(specification)


def component_steps(component: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The steps of a normalizer, pre-tokenizer or decoder, sequences flattened."""
    if component is None:
        return []
    if component["type"] == "Sequence":
        inner = next(component[key] for key in ("pretokenizers", "normalizers", "decoders") if key in component)
        return [step for part in inner for step in component_steps(part)]
    return [dict(component)]


def text_growth(specification: Mapping[str, Any]) -> Growth:
    """Expansion of a text by the normalizer and pre-tokenizer of a parsed tokenizer.json."""
    return _growth(specification, "normalizer").then(_growth(specification, "pre_tokenizer"))


def require_quick_patterns(specification: Mapping[str, Any], backend: tokenizers.Tokenizer) -> None:
    """Raises UserError for regular expressions with catastrophic backtracking.

    The regex library fails after ten million steps at one position; the probe texts reach that limit quickly.
    """
    patterns = [pattern for name in COMPONENTS[:2] for pattern in _patterns(specification.get(name))]
    if not patterns:
        return
    probes = dict.fromkeys([*_PROBES, *(run for pattern in patterns for run in re.findall(r"\w+|\W", pattern))])
    start = time.thread_time()
    for length in _PROBE_LENGTHS:
        for probe in list(probes)[:_MAX_PROBES]:
            normalised = probe * (length // len(probe)) + "\x01"
            if backend.normalizer is not None:
                normalised = backend.normalizer.normalize_str(normalised)
            if backend.pre_tokenizer is not None:
                backend.pre_tokenizer.pre_tokenize_str(normalised)
            if time.thread_time() - start > _PATTERN_SECONDS:
                raise UserError(
                    f"its regular expressions take too long for {length} characters of {probe!r:.20}",
                    hint="Rewrite those that can match the same text in many ways, as (a+)+ can.",
                )


class Guard:
    """Rejects texts that a vocabulary would expand too much, and batches the others within memory limits."""

    def __init__(self, specification: Mapping[str, Any], backend: tokenizers.Tokenizer) -> None:
        self._growth, self._backend = text_growth(specification), backend

    def batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """All texts, in batches that expand to at most MAX_BATCH_BYTES; a longer text is measured and comes alone."""
        if self._growth.of(1) * sum(map(_size, texts)) <= MAX_BATCH_BYTES:
            yield list(texts)
            return
        batch: list[str] = []
        batch_size = 0.0
        for text in self.checked(texts):
            size = self._growth.of(_size(text))
            if batch and batch_size + size > MAX_BATCH_BYTES:
                yield batch
                batch, batch_size = [], 0.0
            batch.append(text)
            batch_size += size
        if batch:
            yield batch

    def checked(self, texts: Iterable[str]) -> Iterator[str]:
        """The texts, one by one. Raises UserError for a text that the vocabulary expands too much."""
        for text in texts:
            if self._growth.of(_size(text)) > MAX_BATCH_BYTES:
                length = max(1, int(MAX_BATCH_BYTES / self._growth.of(4)))
                sizes = (self._expanded_length(text[start : start + length]) for start in range(0, len(text), length))
                limit = TOKENS_OF_CHARACTER.value
                for total in accumulate(sizes):
                    _require_few_per_character(text, total, limit, "characters and more")
            yield text

    def require_few_tokens(self, texts: Iterable[str], encodings: Iterable[tokenizers.Encoding]) -> None:
        """Raises UserError if a text has more tokens than any writing system needs."""
        limit = TOKENS_OF_CHARACTER.value
        for text, encoding in zip(texts, encodings, strict=True):
            _require_few_per_character(text, len(encoding), limit, "tokens")

    def _expanded_length(self, text: str) -> int:
        if self._backend.normalizer is not None:
            text = self._backend.normalizer.normalize_str(text)
        if self._backend.pre_tokenizer is None:
            return len(text)
        return sum(len(part) for part, _ in self._backend.pre_tokenizer.pre_tokenize_str(text))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _require_few_per_character(text: str, count: int, limit: int, unit: str) -> None:
    """Raises UserError if a text grows to more than `limit` units per character, beyond the free allowance."""
    if count > limit * len(text) + _FREE_TOKENS:
        problem = f"a text of {len(text):,} characters becomes {count:,} {unit} by this vocabulary's normalizer"
        raise UserError(problem, hint=TOKENS_OF_CHARACTER.hint)


def _require_growth(growth: Growth, limit: Limit, what: str) -> None:
    if growth.of(1) > limit.value:
        raise UserError(f"{what} can make {growth.of(1):,.0f} bytes of one", hint=limit.hint)


def _require_short_added(specification: Mapping[str, Any]) -> None:
    """Limits the size of normalised added tokens, which are all built when the vocabulary is loaded."""
    growth = _growth(specification, "normalizer")
    added = specification.get("added_tokens") or []
    size = sum(growth.of(_size(token["content"])) for token in added if token.get("normalized", True))
    if size > 4 * MAX_BATCH_BYTES:
        raise UserError(
            f"its normalizer can make {size:,.0f} bytes of its added tokens, where {4 * MAX_BATCH_BYTES:,} are allowed"
        )


def _growth(specification: Mapping[str, Any], component: str) -> Growth:
    growth = Growth()
    try:
        for step in component_steps(specification.get(component)):
            growth = growth.then(_STEPS[component][step["type"]](step))
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise UserError(f"its {component} has an unknown form: {error!r}") from error
    return growth


def _patterns(value: Any) -> Iterator[str]:
    """All regular expressions in a component."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "Regex" and isinstance(inner, str):
                yield inner
            else:
                yield from _patterns(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _patterns(inner)


def _replace(step: Step) -> Growth:
    """Each match is replaced by the content; an empty match occurs between any two characters."""
    ((kind, pattern),) = step["pattern"].items()
    content = _size(step["content"])
    if kind == "String":
        match_size = _size(pattern)
    else:
        match = _ONE_CHARACTER.fullmatch(pattern)
        match_size = 0 if match is None else int(match[1] or 1)
    return Growth(max(1.0, content / match_size)) if match_size else Growth(1.0 + content, content)


def _precompiled(step: Step) -> Growth:
    """SentencePiece's table: the size of a trie, the trie, then zero-terminated replacements."""
    table = base64.b64decode(step["precompiled_charsmap"] or "")
    replacements = table[4 + int.from_bytes(table[:4], "little") :]
    return Growth(max(1.0, *map(len, replacements.split(b"\0"))))


def _metaspace(step: Step) -> Growth:
    """A space becomes the mark, and each word may get a mark in front."""
    return Growth(1.0 + _size(step["replacement"]))


def _byte_level(step: Step) -> Growth:
    """A byte is written with up to two bytes, and each word may get a space in front."""
    return Growth(4.0 if step.get("add_prefix_space", True) else 2.0)


def _replacing_mark(mark: str) -> Callable[[Step], Growth]:
    """A decoder that replaces a mark by a space; an empty mark matches between any two characters."""
    return lambda step: Growth() if step[mark] else Growth(2.0, 1.0)


def _at_most(factor: float, added: float = 0.0) -> Callable[[Step], Growth]:
    return lambda step: Growth(factor, added)


# Upper bounds on how much each step lengthens a text, in bytes of UTF-8. Unicode's worst cases: U+1D160 in NFC, U+0390
# in NFD, U+FDFA in NFKC and NFKD, U+0130 in lower case.
_STEPS: Mapping[str, Mapping[str, Callable[[Step], Growth]]] = {
    "normalizer": {
        "BertNormalizer": _at_most(5.0),  # NFD and lower case, or spaces around a Chinese character
        "ByteLevel": _at_most(2.0),
        "Lowercase": _at_most(1.5),
        "NFC": _at_most(3.0),
        "NFD": _at_most(3.0),
        "NFKC": _at_most(11.0),
        "NFKD": _at_most(11.0),
        "Nmt": _at_most(1.0),
        "Precompiled": _precompiled,
        "Prepend": lambda step: Growth(1.0, _size(step["prepend"])),
        "Replace": _replace,
        "Strip": _at_most(1.0),
        "StripAccents": _at_most(1.0),
    },
    "pre_tokenizer": {
        "ByteLevel": _byte_level,
        "Metaspace": _metaspace,
        **dict.fromkeys(
            (
                "BertPreTokenizer",
                "CharDelimiterSplit",
                "Digits",
                "FixedLength",
                "Punctuation",
                "Split",
                "UnicodeScripts",
                "Whitespace",
                "WhitespaceSplit",
            ),
            _at_most(1.0),
        ),
    },
    "decoder": {
        "BPEDecoder": _replacing_mark("suffix"),
        "ByteFallback": _at_most(1.0),
        "ByteLevel": _at_most(1.5),  # half a character becomes U+FFFD
        "CTC": _replacing_mark("word_delimiter_token"),
        "Fuse": _at_most(1.0),
        "Metaspace": _at_most(1.0),
        "Replace": _replace,
        "Strip": _at_most(1.0),
        "WordPiece": _at_most(1.0, 1.0),  # a space before each word
    },
}
