"""Preview other vocabularies for a text before any training: replaced, extended and trimmed ones.

Vocabularies are learnt on nine tenths of the text and measured on every tenth line. Subwords are worth adding if they
are frequent: a class of a softmax needs a hundred examples (Gowda and May 2020, *Finding
the Optimal Vocabulary Size for Neural Machine Translation*, section 5). Sizes of replaced ones are those of `choices`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SENTENCEPIECE_KINDS
from subgraft.experiments.fit.choices import vocabulary_size
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.extend import Extender
from subgraft.subwords.vocabulary.learn import kind_like, learn
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.lost_text import LostText, lost_text
from subgraft.subwords.vocabulary.segmentation import readable
from subgraft.subwords.vocabulary.spelling import Spelling, spelling, unknown_characters
from subgraft.subwords.vocabulary.tokenizer import Tokenizer
from subgraft.subwords.vocabulary.trim import trim

HELD_OUT = 10  # every tenth line
EXAMPLES = 100  # occurrences that a new subword should have
MAX_ADDED = 10_000
SHARES = (0.25, 0.5)  # of the subwords worth adding, or of the size that suits the text
MAX_SHOWN = 12
# A vocabulary is worth a training if it saves WORTH_SAVING of the tokens, or spells this share of them.
WORTH_SPELLING = 0.01


@dataclass(frozen=True)
class Option:
    """A vocabulary that the model could have, how it segments the held-out lines, and what it loses of them."""

    way: str
    size: int
    changed: int
    spelling: Spelling
    lost: LostText


@dataclass(frozen=True)
class VocabularyGain:
    """A subword worth adding: its count in the text, its present segmentation, and the tokens that it saves."""

    piece: str
    count: int
    pieces: tuple[str, ...]

    @property
    def saved(self) -> int:
        return self.count * (len(self.pieces) - 1)


@dataclass(frozen=True)
class VocabularyPreview:
    """The preview.

    Attributes:
        lines: Number of lines of the text.
        options: The current vocabulary first.
        gains: Subwords worth adding, the largest saving first.
        unused: Number of subwords that the text never uses.
        common_unused: The most common of them, by the vocabulary's scores.
        unknown_tokens: Characters that the vocabulary cannot spell.
    """

    lines: int
    options: tuple[Option, ...]
    gains: tuple[VocabularyGain, ...]
    unused: int
    common_unused: tuple[str, ...]
    unknown_tokens: tuple[str, ...]

    @property
    def old(self) -> Option:
        return self.options[0]

    def tokens_ratio(self, option: Option) -> float:
        """Tokens of an option for one of the current vocabulary."""
        return option.spelling.tokens_per_sentence / max(1e-9, self.old.spelling.tokens_per_sentence)

    @property
    def replaced_ratio(self) -> float:
        """The fewest tokens of a vocabulary that replaces the current one, for one of its tokens."""
        return min((self.tokens_ratio(option) for option in self.options if option.way == "replaced"), default=1.0)


def describe(preview: VocabularyPreview) -> dict[str, Any]:
    """The preview under stable names, in the format of `subgraft advise --json`."""
    return {
        "lines": preview.lines,
        "options": [
            {
                "way": option.way,
                "size": option.size,
                "changed": option.changed,
                "tokens_per_sentence": option.spelling.tokens_per_sentence,
                "spelling": option.spelling,
                "lost": option.lost,
            }
            for option in preview.options
        ],
        "worth_adding": [
            {"piece": gain.piece, "count": gain.count, "pieces": gain.pieces, "saved": gain.saved}
            for gain in preview.gains
        ],
        "unused": preview.unused,
        "unknown_characters": preview.unknown_tokens,
    }


def preview_vocabularies(old: Tokenizer, lines: Sequence[str]) -> VocabularyPreview:
    """Preview vocabularies of several sizes. Raises UserError for too little text."""
    if len(lines) < 2 * HELD_OUT:
        raise UserError(f"{len(lines)} lines are too few to advise on", hint=f"Give {2 * HELD_OUT} or more.")
    held_out, text = list(lines[::HELD_OUT]), [line for index, line in enumerate(lines) if index % HELD_OUT]
    trimmed = trim(old, text)
    extended = _extend_vocabularies(old, text)
    ways = {"as it is": [old], "trimmed": [trimmed], "extended": extended}
    ways["replaced"] = _replacement_vocabularies(old, text)
    options = [
        Option(
            way,
            len(tokenizer),
            len(tokenizer) - (0 if way == "replaced" else len(old)),
            spelling(tokenizer, held_out),
            lost_text(old, tokenizer, held_out),
        )
        for way, tokenizers in ways.items()
        for tokenizer in tokenizers
    ]
    remaining = frozenset(trimmed.pieces)
    unused = sorted(
        (i for i in old.ordinary_ids.tolist() if old.pieces[i] not in remaining), key=old.frequency_rank.__getitem__
    )
    words = Counter(word for line in lines for word in line.split())
    return VocabularyPreview(
        lines=len(lines),
        options=tuple(options),
        gains=_gains(old, extended[-1], text) if extended else (),
        unused=len(old) - len(trimmed),
        common_unused=tuple(readable(old, i) for i in unused[:MAX_SHOWN]),
        unknown_tokens=unknown_characters(old, words, MAX_SHOWN),
    )


def _extend_vocabularies(old: Tokenizer, text: Sequence[str]) -> list[Tokenizer]:
    """Extended vocabularies with all subwords worth adding, and with fewer; none if there are none."""
    extender = Extender.of(old, text)
    largest = extender.extend_at_most(MAX_ADDED, EXAMPLES)
    added = len(largest) - len(old)
    return [*_smaller(lambda size: extender.extend(size, EXAMPLES), added), largest] if added else []


def _replacement_vocabularies(old: Tokenizer, text: Sequence[str]) -> list[Tokenizer]:
    """Vocabularies of the size that suits the text, or the largest that it supports, and smaller ones."""
    kind = kind_like(old)

    def build(size: int) -> Tokenizer:
        return learn(text, kind=kind, size=size, byte_fallback=kind in SENTENCEPIECE_KINDS, like=old)

    size = vocabulary_size(sum(map(len, text)))
    try:
        largest = build(size)
    except TooLargeError as error:
        if not error.possible:
            return []
        size, largest = error.possible, build(error.possible)
    except UserError:  # no room for the text's characters
        return []
    return [*_smaller(build, size), largest]


def _smaller(build: Callable[[int], Tokenizer], largest: int) -> list[Tokenizer]:
    """Vocabularies of shares of the largest size, without those that the text does not support."""
    vocabularies: list[Tokenizer] = []
    for share in SHARES:
        with suppress(UserError):
            vocabularies.append(build(max(1, round(largest * share))))
    return vocabularies


def _gains(old: Tokenizer, extended: Tokenizer, text: Sequence[str]) -> tuple[VocabularyGain, ...]:
    uses = Counter(token for ids in extended.encode_batch(text) for token in ids if token >= len(old))
    entries: dict[int, Entry] = {token: entry for token in uses if (entry := extended.entries[token]) is not None}
    segmentations = old.segment_batch(list(entries.values()))
    gains = [
        VocabularyGain(readable(extended, token), uses[token], tuple(readable(old, part) for part in pieces))
        for token, pieces in zip(entries, segmentations, strict=True)
    ]
    return tuple(sorted(gains, key=lambda gain: (-gain.saved, gain.piece))[:MAX_SHOWN])
