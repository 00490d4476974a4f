"""Cleaning rules for segments, applied to a stream, with counts per rule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from subgraft.config.corpora import Cleaning
from subgraft.data.text.deduplication import SegmentDigests
from subgraft.data.text.fields import Sides
from subgraft.data.text.held_out import HeldOut, fold
from subgraft.data.text.reading import bounded_chunks

# The reasons in words for dropping a segment, by rule.
RULES: Mapping[str, str] = {
    "no_text": "without text",
    "no_label": "without a label",
    "unknown_label": "with a label that training text lacks",
    "answer_not_found": "with an answer that is not in the passage",
    "answer_not_in_sentence": "without a sentence that has the answer",
    "one_candidate": "with one candidate only",
    "other_choices": "with another number of choices",
    "span_outside": "with a span outside the text",
    "spans_overlap": "with spans that overlap",
    "word_with_space": "with a word that is empty or has a space",
    "empty_turn": "with an empty turn",
    "no_answer": "without an assistant's turn after a user's",
    "repeated": "the same as right before",
    "same_document": "in a document that came before",
    "too_short": "too short",
    "few_words": "of too few words",
    "too_long": "too long",
    "ratio": "unequally long",
    "identical": "the same on both sides",
    "held_out": "in dev or test",
    "elsewhere": "in the task's training pairs",
    "duplicate": "a second time",
}

# The number of segments in a chunk, or of their characters.
_AT_ONCE, _CHARACTERS_AT_ONCE = 1 << 16, 1 << 24
# All characters that some reader takes for the end of a line (str.splitlines, universal newlines) become spaces, so
# that all readers of a written corpus count the same lines.
_LINE_BREAKS = str.maketrans(dict.fromkeys("\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", " "))


def in_one_line(text: str) -> str:
    """The text with a space for each character that ends a line: all other characters stay where they are."""
    return text.translate(_LINE_BREAKS)


def dropped_in_words(counts: Mapping[str, int]) -> dict[str, int]:
    """Dropped segments by reason."""
    return {words: counts[rule] for rule, words in RULES.items() if counts.get(rule)}


def near_copies_in_words(count: int) -> str:
    """How many dev and test segments have near copies in the training text; empty if none has."""
    return f"near copies of {count:,} dev and test segments stay" if count else ""


def strip(sides: Sides, counts: Counter[str]) -> Sides:
    """The sides without outer white space, and with line breaks replaced, which is counted."""
    stripped = tuple(side.strip() for side in sides)
    single = tuple(map(in_one_line, stripped))
    if single != stripped:
        counts["line_breaks_replaced"] += 1
    return single


def squeeze(segments: Iterable[Sides], characters: str, counts: Counter[str], texts: Sequence[int]) -> Iterator[Sides]:
    """Replace each run of one of these characters by a single one.

    Args:
        segments: The segments.
        characters: The characters whose runs are replaced.
        counts: Receives "squeezed", the number of changed segments.
        texts: The indices of text cells.
    """
    run = re.compile(f"([{re.escape(characters)}])\\1+")
    text_indices = frozenset(texts)
    for cells in segments:
        squeezed = tuple(run.sub(r"\1", cell) if index in text_indices else cell for index, cell in enumerate(cells))
        counts["squeezed"] += squeezed != cells
        yield squeezed


def digests(segments: Iterable[Sides]) -> np.ndarray:
    """A 64-bit digest of each segment [n], uint64; any collision among 10 million has a probability below 3e-6."""
    each = (blake2b("\n".join(sides).encode("utf-8"), digest_size=8).digest() for sides in segments)
    values: np.ndarray = np.frombuffer(b"".join(each), dtype=">u8").astype(np.uint64)
    return values


def clean(
    segments: Iterable[Sides],
    cleaning: Cleaning,
    held_out: HeldOut,
    counts: Counter[str],
    texts: Sequence[int],
    elsewhere: SegmentDigests | None = None,
    folder: Path | None = None,
    inputs: Sequence[int] = (),
) -> Iterator[Sides]:
    """The stripped segments that pass every rule.

    A segment is counted under the first rule it breaks, in the order too_short, few_words, too_long, ratio, identical,
    held_out, elsewhere, duplicate. Memory is constant in the number of segments, except for digests without a folder.

    Args:
        held_out: The stripped dev and test texts.
        counts: Receives "read", "kept", a count for each broken rule, and "near_copies" of held-out segments.
        texts: The indices of text cells; rules apply only to these.
        elsewhere: Digests of another corpus's segments.
        folder: A folder for large sets of digests.
        inputs: For labelled examples, the indices of all cells except annotations. One text may occur in several
            examples, with different entities, or with different labels if annotators disagree. So only examples with
            equal cells are duplicates, and "contradictory" counts those that differ from an earlier one only in their
            annotations.
    """
    set_rules = _SetRules(cleaning, held_out, elsewhere or SegmentDigests(), SegmentDigests(folder))
    known_inputs = SegmentDigests(folder)
    for chunk in chunks(segments):
        counts["read"] += len(chunk)
        stripped = [strip(cells, counts) for cells in chunk]
        sides = [tuple(cells[i] for i in texts) for cells in stripped]
        broken_rules = [_broken_rule(texts_of_segment, cleaning) for texts_of_segment in sides]
        candidates = [index for index, rule in enumerate(broken_rules) if rule is None]
        compared = stripped if inputs else sides
        rules = set_rules.rules([sides[index] for index in candidates], [compared[index] for index in candidates])
        for index, rule in zip(candidates, rules, strict=True):
            broken_rules[index] = rule
        if inputs and cleaning.deduplicate:
            passed = [
                tuple(cells[i] for i in inputs) for cells, rule in zip(stripped, broken_rules, strict=True) if not rule
            ]
            if repeated := int((~known_inputs.new(digests(passed))).sum()):
                counts["contradictory"] += repeated
        for cells, rule in zip(stripped, broken_rules, strict=True):
            counts[rule or "kept"] += 1
            if rule is None:
                yield cells
    if near := set_rules.near_copies:
        counts["near_copies"] += near


def chunks(segments: Iterable[Sides]) -> Iterator[list[Sides]]:
    """The segments in lists of bounded size."""
    return bounded_chunks(segments, lambda cells: sum(map(len, cells)), _AT_ONCE, _CHARACTERS_AT_ONCE)


def _broken_rule(sides: Sides, cleaning: Cleaning) -> str | None:
    shortest, longest = min(map(len, sides)), max(map(len, sides))
    if shortest < cleaning.min_characters:
        return "too_short"
    if cleaning.min_words is not None and min(len(side.split()) for side in sides) < cleaning.min_words:
        return "few_words"
    if cleaning.max_characters is not None and longest > cleaning.max_characters:
        return "too_long"
    if cleaning.max_ratio is not None and longest > cleaning.max_ratio * shortest:
        return "ratio"
    if cleaning.drop_identical and len(sides) == 2 and sides[0] == sides[1]:
        return "identical"
    return None


@dataclass(frozen=True)
class _SetRules:
    """Rules that compare a segment with others: with held-out text, another corpus, and the segments retained so far.

    Attributes:
        known: Digests of the segments that have passed every rule so far.
    """

    cleaning: Cleaning
    held_out: HeldOut
    elsewhere: SegmentDigests
    known: SegmentDigests

    @property
    def _compares(self) -> bool:
        return self.cleaning.drop_held_out and len(self.held_out) > 0

    @property
    def near_copies(self) -> int:
        return self.held_out.near_copies if self._compares else 0

    def rules(self, segments: Sequence[Sides], compared: Sequence[Sides]) -> list[str | None]:
        """The rule that each segment [n] breaks, if any; duplicates are equal in the cells of `compared`."""
        broken_rules = np.full(len(segments), None, dtype=object)
        remaining = np.arange(len(segments))
        forms = [tuple(map(fold, sides)) for sides in segments] if self._compares else []
        if forms:
            remaining = _without(
                remaining, np.array([self.held_out.has(form) for form in forms]), broken_rules, "held_out"
            )
        if self.cleaning.deduplicate:
            hashes = digests(compared)
            remaining = _without(remaining, self.elsewhere.has(hashes[remaining]), broken_rules, "elsewhere")
            remaining = _without(remaining, ~self.known.new(hashes[remaining]), broken_rules, "duplicate")
        if forms:
            self.held_out.note(forms[index] for index in remaining)
        return list(broken_rules)


def _without(indices: np.ndarray, violates: np.ndarray, broken_rules: np.ndarray, rule: str) -> np.ndarray:
    """Remove the indices [n] of segments that violate a rule, and note the rule in `broken_rules`."""
    broken_rules[indices[violates]] = rule
    remaining: np.ndarray = indices[~violates]
    return remaining


# Invisible characters, and characters that change what is displayed, are retained; `corpora check` reports them.
BYTE_ORDER_MARK = "byte order marks (U+FEFF)"
# The Unicode standard, annex 9 (bidirectional formatting characters) and section 5.8 (newline guidelines).
KINDS: Mapping[str, str] = {
    "NUL characters (U+0000)": "\x00",
    BYTE_ORDER_MARK: "\ufeff",
    "controls of the direction of writing (U+202E and others)": "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069",
    "line separators inside segments (U+2028 and others)": "\x0b\x0c\x1c-\x1e\x85\u2028\u2029",
}
_ANY = re.compile(f"[{''.join(KINDS.values())}]")
_OF_KIND = {kind: re.compile(f"[{characters}]") for kind, characters in KINDS.items()}


def count_invisible(text: str) -> Counter[str]:
    """Count the characters of each kind in a text."""
    if not _ANY.search(text):
        return Counter()
    return Counter({kind: len(matches) for kind, of in _OF_KIND.items() if (matches := of.findall(text))})
