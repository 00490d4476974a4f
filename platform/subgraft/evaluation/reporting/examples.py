"""Examples of outputs: over-segmented words that the baseline gets wrong and other systems get right.

The reverse cases are shown and counted too, because examples alone prove nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from subgraft.evaluation.metrics.metric_words import primary
from subgraft.evaluation.reporting.document import Block, Paragraph, Section
from subgraft.evaluation.reporting.numbers import MISSING, count, percent
from subgraft.evaluation.reporting.records import ReportData
from subgraft.evaluation.reporting.table import Span, Table, Text, table, text
from subgraft.subwords.vocabulary.entry import Entry
from subgraft.subwords.vocabulary.segmentation import readable
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# Languages written without spaces between words: the downstream vocabulary's subwords stand in for their words.
_SPACELESS = frozenset({"zh", "ja", "th", "lo", "km", "my", "yue", "wuu"})
_SEPARATOR = re.compile(r"[\s'’]+")


# The length in characters of a source that is easily read. If most sources are longer, their median is the limit.
_MAX_SOURCE_LENGTH = 240


@dataclass(frozen=True)
class WordRecall:
    """Over-segmented words of the references that a system's outputs contain, over all of its seeds.

    gained: contained here and not in the baseline's output of the same seed; lost: the reverse. None for the baseline.
    """

    name: str
    recalled: int
    total: int
    gained: int | None
    lost: int | None


@dataclass(frozen=True)
class Output:
    """A system's output, and whether it contains the word."""

    name: str
    text: str
    has_word: bool


@dataclass(frozen=True)
class SideBySide:
    """The outputs of all systems for one sentence and seed, the baseline first."""

    word: str
    pieces: tuple[str, ...]
    seed: int
    source: str
    reference: str
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class Examples:
    """Sentences where only other systems contain the word (gained), where only the baseline does (lost), and counts."""

    gained: tuple[SideBySide, ...]
    lost: tuple[SideBySide, ...]
    recalls: tuple[WordRecall, ...]


@dataclass(frozen=True)
class _Occurrences:
    """Over-segmented words as pairs (sentence, word), and by system and seed whether the outputs contain them."""

    pairs: list[tuple[int, str]]
    hits: dict[tuple[str, int], NDArray[np.bool_]]


def find_examples(data: ReportData, gained: int = 5, lost: int = 2) -> Examples:
    """At most `gained` and `lost` examples, chosen by rule, and counts over everything.

    Sentences are ranked by the number of systems that differ from the baseline, then by the number of pieces of the
    word, then by length. No sentence or word is shown twice.
    """
    occurrences = _find_occurrences(data)
    recalls = tuple(_recall(data, occurrences, name) for name in data.system_names)
    return Examples(
        gained=_select(data, occurrences, gained, baseline_has_it=False),
        lost=_select(data, occurrences, lost, baseline_has_it=True),
        recalls=recalls,
    )


def _find_occurrences(data: ReportData) -> _Occurrences:
    pairs = [
        (sentence, word)
        for sentence, reference in enumerate(data.references)
        for word in _over_segmented_in(reference, data)
    ]
    hits = {}
    for system in data.systems:
        present = [_vocabulary_of(text, data) for text in system.hypotheses]
        hits[system.name, system.seed] = np.array(
            [word in present[sentence] for sentence, word in pairs], dtype=np.bool_
        )
    return _Occurrences(pairs, hits)


def _over_segmented_in(text: str, data: ReportData) -> list[str]:
    present = _vocabulary_of(text, data)
    if isinstance(present, str):
        return [word for word in data.over_segmented if word in present]
    return sorted(word for word in present if word in data.over_segmented)


def _vocabulary_of(text: str, data: ReportData) -> str | set[str]:
    """A container for `word in …`: the set of words, or the text itself in scripts without spaces."""
    return text if is_spaceless(data.languages[1]) else set(words_of(text))


def _recall(data: ReportData, occurrences: _Occurrences, name: str) -> WordRecall:
    hits_by_seed = {result.seed: occurrences.hits[name, result.seed] for result in data.results(name)}
    recalled, total = (
        int(sum(part)) for part in ([h.sum() for h in hits_by_seed.values()], [h.size for h in hits_by_seed.values()])
    )
    if data.baseline is None or name == data.baseline:
        return WordRecall(name, recalled, total, None, None)
    gained = lost = 0
    for seed, hits in hits_by_seed.items():
        base = occurrences.hits.get((data.baseline, seed))
        if base is not None:
            gained += int((hits & ~base).sum())
            lost += int((base & ~hits).sum())
    return WordRecall(name, recalled, total, gained, lost)


def _select(
    data: ReportData, occurrences: _Occurrences, limit: int, *, baseline_has_it: bool
) -> tuple[SideBySide, ...]:
    selected: list[SideBySide] = []
    sentences: set[int] = set()
    words: set[str] = set()
    for _, index, seed in _ranked(data, occurrences, baseline_has_it):
        sentence, word = occurrences.pairs[index]
        if len(selected) == limit:
            break
        if sentence not in sentences and word not in words:
            selected.append(_side_by_side(data, occurrences, index, seed))
            sentences.add(sentence)
            words.add(word)
    return tuple(selected)


def _ranked(
    data: ReportData, occurrences: _Occurrences, baseline_has_it: bool
) -> list[tuple[tuple[int, int, int], int, int]]:
    """The qualifying occurrences as (rank, index, seed), best first."""
    if data.baseline is None:
        return []
    candidates = []
    max_length = max(_MAX_SOURCE_LENGTH, int(np.median([len(source) for source in data.sources])))
    others = [name for name in data.system_names if name != data.baseline]
    for seed in data.seeds:
        base = occurrences.hits.get((data.baseline, seed))
        hits = [occurrences.hits[name, seed] for name in others if (name, seed) in occurrences.hits]
        if base is None or not hits:
            continue
        differing = (np.stack(hits) != base).sum(axis=0) * (base == baseline_has_it)
        for index in np.flatnonzero(differing):
            sentence, word = occurrences.pairs[index]
            length = len(data.sources[sentence])
            if length <= max_length:
                rank = (-int(differing[index]), -len(data.over_segmented[word]), length)
                candidates.append((rank, int(index), seed))
    return sorted(candidates)


def _side_by_side(data: ReportData, occurrences: _Occurrences, index: int, seed: int) -> SideBySide:
    sentence, word = occurrences.pairs[index]
    results = [system for system in data.systems if system.seed == seed]
    results.sort(key=lambda system: system.name != data.baseline)
    outputs = tuple(
        Output(system.name, system.hypotheses[sentence], bool(occurrences.hits[system.name, seed][index]))
        for system in results
    )
    reference = data.references[sentence]
    return SideBySide(word, data.over_segmented[word], seed, data.sources[sentence], reference, outputs)


# The section of a report that shows outputs side by side, and words that were found or missed.


def translations(data: ReportData) -> Section:
    """Outputs side by side for over-segmented words, and how often each system gets such words."""
    examples = find_examples(data)
    unit = "subwords" if is_spaceless(data.languages[1]) else "words"
    note = (
        f"{count(len(data.over_segmented))} distinct {unit} of the test references are segmented into three pieces or "
        "more by the upstream vocabulary. The table counts how many of their occurrences each system's outputs "
        "contain. The sentences below it are chosen by rule: those first in which most systems differ from the "
        "baseline."
    )
    headings = ["system", "words found", "of", "share", "gained on\nthe baseline", "lost to\nthe baseline"]
    rows = []
    for recall in examples.recalls:
        share = percent(recall.recalled / recall.total) if recall.total else MISSING
        against = [MISSING if value is None else count(value) for value in (recall.gained, recall.lost)]
        rows.append([recall.name, count(recall.recalled), count(recall.total), share, *against])
    blocks: list[Block] = [
        Paragraph(text(note)),
        table(headings, rows, "Over-segmented words of the references found in the outputs, all seeds"),
    ]
    for cases, outcome in (
        (examples.gained, "missed by the baseline, found by others"),
        (examples.lost, "found by the baseline, missed by others"),
    ):
        blocks += [_example_table(example, outcome) for example in cases]
    return Section("Outputs side by side", tuple(blocks))


def _example_table(example: SideBySide, outcome: str) -> Table:
    pieces = " ".join(example.pieces)
    rows: list[list[str | Text]] = [
        [text(Span("source", "faint")), example.source],
        [text(Span("reference", "faint")), highlight(example.reference, example.word)],
    ]
    rows += [
        [output.name, highlight(output.text, example.word) if output.has_word else output.text]
        for output in example.outputs
    ]
    caption = f"{example.word} ({pieces}), {outcome}, seed {example.seed}"
    return table(["", ""], rows, caption, left=(0, 1))


def highlight(sentence: str, word: str) -> Text:
    """Mark every occurrence of the word; occurrences inside longer words only if the word never stands alone."""
    separate = re.split(rf"(?<!\w)({re.escape(word)})(?!\w)", sentence)
    parts = separate if len(separate) > 1 else re.split(f"({re.escape(word)})", sentence)
    return tuple(Span(part, "mark" if index % 2 else "plain") for index, part in enumerate(parts) if part)


def is_spaceless(language: str) -> bool:
    """Whether the language is written without spaces between words."""
    return primary(language) in _SPACELESS


def words_of(text: str) -> Iterator[str]:
    """Words between spaces and apostrophes, without the punctuation around them; nothing with a digit in it."""
    for chunk in _SEPARATOR.split(text):
        start, end = 0, len(chunk)
        while start < end and _is_punctuation(chunk[start]):
            start += 1
        while end > start and _is_punctuation(chunk[end - 1]):
            end -= 1
        word = chunk[start:end]
        if word and not any(character.isdigit() for character in word):
            yield word


def over_segmented_words(
    references: Sequence[str], upstream: Tokenizer, downstream: Tokenizer, language: str, *, at_least: int = 3
) -> dict[str, tuple[str, ...]]:
    """Words of the references that the upstream vocabulary segments into `at_least` pieces or more, with the pieces.

    In languages without spaces, words are the downstream vocabulary's subwords of two characters or more.
    """
    words: dict[str, Entry] = {}
    if is_spaceless(language):
        for ids in downstream.encode_batch(references):
            entries = (downstream.entries[token] for token in ids)
            words.update({entry.surface: entry for entry in entries if entry and len(entry.surface) > 1})
    else:
        words.update({word: Entry(word, True) for line in references for word in words_of(line)})
    segmented = upstream.segment_batch(list(words.values()))
    return {
        word: tuple(readable(upstream, token) for token in ids)
        for word, ids in zip(words, segmented, strict=True)
        if len(ids) >= at_least
    }


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] in "PS"
