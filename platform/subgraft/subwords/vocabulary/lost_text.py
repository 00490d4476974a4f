"""Text that a new vocabulary changes and the old one gives back: decode(encode(line)) == line with the old one alone.

A vocabulary without an unknown token may still lose text: its normaliser folds white space, drops invisible characters
or composes letters, and a model can never write text that its vocabulary cannot distinguish. Text that the old
vocabulary changes too is not counted, such as upper case by an uncased BERT.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from subgraft.base.errors import UserError
from subgraft.subwords.vocabulary.learn import SampledLines, sample
from subgraft.subwords.vocabulary.spelling import round_trip
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# How many lines of a text are compared, and how many characters of each.
SAMPLE, _LINE_LENGTH = 5000, 1000
_EXAMPLES, _CHARACTERS, _CONTEXT = 3, 5, 20
_NAMES = {" ": "spaces", "\t": "tabs", "\n": "line ends", "\r": "carriage returns"}


@dataclass(frozen=True)
class LostText:
    """Lines of a text that the old vocabulary gives back and the new one does not.

    Attributes:
        lines: The number of lines that were compared.
        lost: How many of them are lost.
        characters: Names of the characters that most of these lines lack after a round trip; none if only spaces are
            added.
        examples: Lost text, and what the new vocabulary makes of it; as Python's strings, so that white space and
            invisible characters can be seen.
    """

    lines: int
    lost: int
    characters: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()

    @property
    def share(self) -> float:
        """The share of lines that are lost."""
        return self.lost / max(1, self.lines)

    def __str__(self) -> str:
        """The loss in words; empty if there is none."""
        return self.in_words()

    def in_words(self, new: str = "the new vocabulary", old: str = "the old one") -> str:
        """The loss in words, with these names of the vocabularies; empty if there is none."""
        if not self.lost:
            return ""
        what = f" It loses {', '.join(self.characters)}." if self.characters else ""
        shown = "; ".join(f"{before} becomes {after}" for before, after in self.examples)
        return (
            f"{new} changes {self.lost:,} of {self.lines:,} lines ({self.share:.1%}), which {old} gives back.{what} "
            f"For example {shown}"
        )

    def warning(self, bound: float, where: str, error: type[UserError] = UserError) -> str:
        """The loss in a sentence, empty if there is none; raises `error` if it exceeds the bound.

        where: the setting or argument of the bound, a share of the lines.
        """
        if self.share <= bound:
            return str(self)
        hint = (
            "A model could never write these. Take the old vocabulary's kind, byte-level-bpe, or an extended one; or "
            f"allow the loss: this bound is {bound:g}, a share of the lines."
        )
        raise error(str(self), where=where, hint=hint)


def sampled(lines: Iterable[str]) -> SampledLines:
    """The lines for one reader, whose sample is what `lost_text` compares."""
    return SampledLines(lines, SAMPLE)


def lost_text(old: Tokenizer, new: Tokenizer, lines: Iterable[str]) -> LostText:
    """Compare two vocabularies on a sample of the text, without white space at the ends of its lines."""
    compared = [line[:_LINE_LENGTH].rstrip() for line in sample(lines, SAMPLE, seed=1)]
    changed = _changed(old, new, compared)
    counts = Counter(name for line, after in changed for name in _lost_of(line, after))
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    return LostText(
        len(compared),
        len(changed),
        tuple(ranked[:_CHARACTERS]),
        tuple(_example(line, after) for line, after in changed[:_EXAMPLES]),
    )


def _changed(old: Tokenizer, new: Tokenizer, lines: Sequence[str]) -> list[tuple[str, str]]:
    """The lines that the old vocabulary gives back and the new one changes, with what becomes of them."""
    if old.digest == new.digest:
        return []
    alike = [line for line, after in zip(lines, round_trip(old, lines), strict=True) if _survives(line, after)]
    return [
        (line, after) for line, after in zip(alike, round_trip(new, alike), strict=True) if not _survives(line, after)
    ]


def _survives(line: str, after: str) -> bool:
    """Whether a round trip changes nothing but one space before the text, which many vocabularies add or remove."""
    return after in (line, f" {line}", line.removeprefix(" "))


def _lost_of(line: str, after: str) -> set[str]:
    """Names of a line's losses; empty if spaces are added."""
    before, after = unicodedata.normalize("NFC", line), unicodedata.normalize("NFC", after)
    if before == after:
        return {"decomposed letters (NFD)"}
    if before.casefold() == after.casefold():
        return {"upper case"}
    return set(map(_name, Counter(before) - Counter(after)))


def _name(character: str) -> str:
    code = f"U+{ord(character):04X}"
    return _NAMES.get(character) or f"{code} {unicodedata.name(character, '')}".rstrip()


def _example(line: str, after: str) -> tuple[str, str]:
    """Both texts around their first difference."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(line, after, strict=False)))
    start = max(0, same - _CONTEXT)
    before, changed = (
        repr(("…" if start else "") + text[start : same + _CONTEXT] + ("…" if len(text) > same + _CONTEXT else ""))
        for text in (line, after)
    )
    return before, changed


# Text whose loss is easily overlooked, around a letter {}. Where a text is at hand, that is compared instead.
_PROBES = {
    "line ends": "{}\n{}",
    "tabs": "{}\t{}",
    "runs of spaces": "{}  {}",
    "indentation": "    {}",
    "no-break spaces": "{}\u00a0{}",
    "zero-width non-joiners": "{}\u200c{}",
    "zero-width joiners": "{}\u200d{}",
    "decomposed letters (NFD)": "e\u0301",
    "compatibility characters such as ½": "½",
    "digits": "0 1 2 3 4 5 6 7 8 9",
    "emoji": "🙂",
}
_LETTERS = "aя的اのक"


def lost_probes(old: Tokenizer, new: Tokenizer) -> str:
    """What the new vocabulary loses of a few probes, in a sentence; empty if that is nothing.

    A letter that both vocabularies give back surrounds what is tried; without one, nothing is.
    """
    letters = [letter for letter in _LETTERS if round_trip(old, [letter]) == round_trip(new, [letter]) == [letter]]
    if not letters:
        return ""
    probes = {name: text.format(letters[0], letters[0]) for name, text in _PROBES.items()}
    changed = {line for line, _ in _changed(old, new, list(probes.values()))}
    lost = ", ".join(name for name, text in probes.items() if text in changed)
    return f"the new vocabulary changes text that the old one gives back: {lost}" if lost else ""
