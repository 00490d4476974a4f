"""How much longer a text may become on its way through a vocabulary's normalizer, pre-tokenizer and decoder.

A tokenizer.json of two kilobytes can replace each letter by two of them thirty times, and tokenizers does what it says
until memory ends. So the steps are read before anything is built: each makes at most so many bytes of one byte, and
those after it make more of these. What honest vocabularies could do at worst is far from what they do, so a long text
is measured in slices before it is cut as a whole.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

import tokenizers

from subgraft.base.errors import UserError
from subgraft.base.limits import (
    DECODED_GROWTH,
    TEXT_GROWTH,
    TOKENIZER_BYTES,
    TOKENIZER_STEPS,
    TOKENS_OF_CHARACTER,
    Limit,
)
from subgraft.subwords.vocabulary.tokenizer_description import parts

Step: TypeAlias = Mapping[str, Any]

# Bytes that texts may become at once, and tokens of any text, however short.
WORK, _FREE_TOKENS = 1 << 24, 4096
COMPONENTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
# Seconds of processor time for short texts of one character, which take a sound pattern a thousandth of that.
_PATTERN_SECONDS = 0.5
_PROBE_LENGTHS, _PROBES, _MOST_PROBES = (16, 64, 256), ("a", "A", "1", " ", "\n", "-", "é", "中"), 64
# A regular expression that matches one character, or so many and more of it.
_ONE_CHARACTER = re.compile(r"(?:[ \w]|\\[sdw])(?:\+|\{(\d+),\})?")


@dataclass(frozen=True)
class Growth:
    """At most `factor` bytes for each byte of a text, and `added` bytes for the text."""

    factor: float = 1.0
    added: float = 0.0

    def then(self, other: Growth) -> Growth:
        return Growth(self.factor * other.factor, self.added * other.factor + other.added)

    def of(self, size: int) -> float:
        """The most bytes that so many bytes can become."""
        return self.factor * size + self.added


def require_bounded(specification: Mapping[str, Any]) -> None:
    """Raises UserError where a component of a parsed tokenizer.json is too large, or makes too much of a text."""
    for name in COMPONENTS:
        size = len(json.dumps(specification.get(name)))
        if size > TOKENIZER_BYTES.value:
            raise UserError(f"its {name} has {size:,} bytes", hint=TOKENIZER_BYTES.hint)
    for name in ("normalizer", "pre_tokenizer", "decoder"):
        steps = len(parts(specification.get(name)))
        if steps > TOKENIZER_STEPS.value:
            raise UserError(f"its {name} has {steps:,} steps", hint=TOKENIZER_STEPS.hint)
    _require(_growth(specification, "normalizer"), TEXT_GROWTH, "its normalizer")
    _require(text_growth(specification), TEXT_GROWTH, "its normalizer and pre_tokenizer")
    _require(_growth(specification, "decoder"), DECODED_GROWTH, "its decoder")
    _require_short_added(specification)


def text_growth(specification: Mapping[str, Any]) -> Growth:
    """Of a text on its way to the model of a parsed tokenizer.json."""
    return _growth(specification, "normalizer").then(_growth(specification, "pre_tokenizer"))


def require_quick_patterns(specification: Mapping[str, Any], backend: tokenizers.Tokenizer) -> None:
    """Raises UserError where a regular expression tries so many ways to match a short text that a long one never ends.

    Its library gives up after ten million tries at one place, which is an error, and the texts here reach that soon.
    """
    patterns = [found for name in COMPONENTS[:2] for found in _patterns(specification.get(name))]
    if not patterns:
        return
    spelled = dict.fromkeys([*_PROBES, *(run for pattern in patterns for run in re.findall(r"\w+|\W", pattern))])
    began = time.thread_time()
    for length in _PROBE_LENGTHS:
        for probe in list(spelled)[:_MOST_PROBES]:
            normal = probe * (length // len(probe)) + "\x01"
            if backend.normalizer is not None:
                normal = backend.normalizer.normalize_str(normal)
            if backend.pre_tokenizer is not None:
                backend.pre_tokenizer.pre_tokenize_str(normal)
            if time.thread_time() - began > _PATTERN_SECONDS:
                raise UserError(
                    f"its regular expressions take too long for {length} characters of {probe!r:.20}",
                    hint="Rewrite those that can match the same text in many ways, as (a+)+ can.",
                )


class Guard:
    """Texts of which a vocabulary makes no more than memory holds."""

    def __init__(self, specification: Mapping[str, Any], backend: tokenizers.Tokenizer) -> None:
        self._growth, self._backend = text_growth(specification), backend

    def batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """All texts, so many at a time as can become `WORK` bytes; longer ones alone, once they were measured."""
        if self._growth.of(1) * sum(map(_size, texts)) <= WORK:
            yield list(texts)
            return
        batch: list[str] = []
        held = 0.0
        for text in self.checked(texts):
            size = self._growth.of(_size(text))
            if batch and held + size > WORK:
                yield batch
                batch, held = [], 0.0
            batch.append(text)
            held += size
        if batch:
            yield batch

    def checked(self, texts: Iterable[str]) -> Iterator[str]:
        """The texts, one after the other. Raises UserError at one that becomes much longer than it is."""
        for text in texts:
            if self._growth.of(_size(text)) > WORK:
                length = max(1, int(WORK / self._growth.of(4)))
                grown = (self._grown(text[at : at + length]) for at in range(0, len(text), length))
                for made in accumulate(grown):
                    _require_few(text, made, "characters and more")
            yield text

    def require_few_tokens(self, texts: Iterable[str], encodings: Iterable[tokenizers.Encoding]) -> None:
        """Raises UserError where a text has become more tokens than any writing needs."""
        for text, encoding in zip(texts, encodings, strict=True):
            _require_few(text, len(encoding), "tokens")

    def _grown(self, text: str) -> int:
        if self._backend.normalizer is not None:
            text = self._backend.normalizer.normalize_str(text)
        if self._backend.pre_tokenizer is None:
            return len(text)
        return sum(len(part) for part, _ in self._backend.pre_tokenizer.pre_tokenize_str(text))


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _require_few(text: str, made: int, what: str) -> None:
    if made > TOKENS_OF_CHARACTER.value * len(text) + _FREE_TOKENS:
        found = f"a text of {len(text):,} characters becomes {made:,} {what} by this vocabulary's normalizer"
        raise UserError(found, hint=TOKENS_OF_CHARACTER.hint)


def _require(growth: Growth, limit: Limit, what: str) -> None:
    if growth.of(1) > limit.value:
        raise UserError(f"{what} can make {growth.of(1):,.0f} bytes of one", hint=limit.hint)


def _require_short_added(specification: Mapping[str, Any]) -> None:
    """Added tokens are normalised too, all of them when the vocabulary is built."""
    growth = _growth(specification, "normalizer")
    added = specification.get("added_tokens") or []
    held = sum(growth.of(_size(token["content"])) for token in added if token.get("normalized", True))
    if held > 4 * WORK:
        raise UserError(
            f"its normalizer can make {held:,.0f} bytes of its added tokens, where {4 * WORK:,} are allowed"
        )


def _growth(specification: Mapping[str, Any], component: str) -> Growth:
    grown = Growth()
    try:
        for step in parts(specification.get(component)):
            grown = grown.then(_STEPS[component][step["type"]](step))
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        raise UserError(f"its {component} is in no form that is known: {error!r}") from error
    return grown


def _patterns(value: Any) -> Iterator[str]:
    """Every regular expression in a component."""
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
    """One occurrence gives way to the content; what matches no character at all stands between any two."""
    ((kind, pattern),) = step["pattern"].items()
    content = _size(step["content"])
    if kind == "String":
        least = _size(pattern)
    else:
        found = _ONE_CHARACTER.fullmatch(pattern)
        least = 0 if found is None else int(found[1] or 1)
    return Growth(max(1.0, content / least)) if least else Growth(1.0 + content, content)


def _precompiled(step: Step) -> Growth:
    """A table of SentencePiece: a trie behind its size in bytes, then what its entries lead to, each up to a zero."""
    table = base64.b64decode(step["precompiled_charsmap"] or "")
    replacements = table[4 + int.from_bytes(table[:4], "little") :]
    return Growth(max(1.0, *map(len, replacements.split(b"\0")), 1.0))


def _metaspace(step: Step) -> Growth:
    """A space becomes the mark, and each word may get one before it."""
    return Growth(1.0 + _size(step["replacement"]))


def _byte_level(step: Step) -> Growth:
    """A byte is spelled with up to two, and each word may get a space before it."""
    return Growth(4.0 if step.get("add_prefix_space", True) else 2.0)


def _joined(mark: str) -> Callable[[Step], Growth]:
    """A decoder that writes a space for a mark: for an empty one, between any two characters."""
    return lambda step: Growth() if step[mark] else Growth(2.0, 1.0)


def _at_most(factor: float, added: float = 0.0) -> Callable[[Step], Growth]:
    return lambda step: Growth(factor, added)


# By how much a step lengthens text at most, in bytes of UTF-8. The worst of Unicode: U+1D160 in NFC, U+0390 in NFD,
# U+FDFA in NFKC and NFKD, U+0130 in lower case.
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
        "BPEDecoder": _joined("suffix"),
        "ByteFallback": _at_most(1.0),
        "ByteLevel": _at_most(1.5),  # half a character becomes U+FFFD
        "CTC": _joined("word_delimiter_token"),
        "Fuse": _at_most(1.0),
        "Metaspace": _at_most(1.0),
        "Replace": _replace,
        "Strip": _at_most(1.0),
        "WordPiece": _at_most(1.0, 1.0),  # a space before each word
    },
}
