"""Tagged words: the entities that tags mark, and how many of them are correct.

Entities are read as conlleval and seqeval (its default mode) read them. IOB1, IOB2 and IOBES need no setting, and an
entity that begins in the wrong way counts: an I after O begins one. BILOU's L and U are read as E and S.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import TypeVar

import numpy as np

from subgraft.base.errors import UserError
from subgraft.evaluation.metrics.classes import COUNTS
from subgraft.evaluation.metrics.sentence_statistics import FloatArray

Tags = Sequence[str]
# The type, the first word, the last word.
Entity = tuple[str, int, int]
Read = TypeVar("Read")

_TAG = re.compile(r"O|([BIESLU])(?:-(.*))?", re.DOTALL)
_OUTSIDE = ("O", "")
_ALIASES = {"L": "E", "U": "S"}


def entities(tags: Tags) -> set[Entity]:
    """The entities that tags of a sentence mark. Raises UserError if a tag marks none and is not O."""
    spans: set[Entity] = set()
    previous, start = _OUTSIDE, 0
    for index, tag in enumerate([*map(_split_tag, tags), _OUTSIDE]):
        if previous != _OUTSIDE and not _continues(previous, tag):
            spans.add((previous[1], start, index - 1))
        if tag != _OUTSIDE and not _continues(previous, tag):
            start = index
        previous = tag
    return spans


def entity_types(labels: Iterable[str]) -> list[str]:
    """The types of entities in a set of tags, sorted."""
    return sorted({kind for prefix, kind in map(_split_tag, labels) if prefix != "O"})


def entity_counts(predictions: Sequence[Tags], references: Sequence[Tags]) -> FloatArray:
    """Counts of the correct, the predicted and the actual entities of each sentence: [n, 3].

    Args:
        predictions: n sentences of tags. A model that truncated a sentence must predict O for the words after it.
        references: n sentences of as many tags.

    Raises:
        UserError: a tag is not one, or a sentence has another number of tags.
    """
    rows = [
        [len(predicted & actual), len(predicted), len(actual)]
        for predicted, actual in _pairs(predictions, references, entities)
    ]
    return np.array(rows, dtype=np.float64)


def entity_counts_by_type(predictions: Sequence[Tags], references: Sequence[Tags], labels: Tags) -> FloatArray:
    """The counts of `entity_counts` for each type: [n, 3 · types]; the three of a type are adjacent.

    Types are those of the labels and of the tags; raises as `entity_counts`.
    """
    types = entity_types({*labels, *chain.from_iterable(predictions), *chain.from_iterable(references)})
    column = {kind: index for index, kind in enumerate(types)}
    counts = np.zeros((len(references), len(types), COUNTS))
    for row, (predicted, actual) in zip(counts, _pairs(predictions, references, entities), strict=True):
        for index, side in enumerate((predicted & actual, predicted, actual)):
            for kind, _, _ in side:
                row[column[kind], index] += 1
    return counts.reshape(len(counts), -1)


def tag_counts(predictions: Sequence[Tags], references: Sequence[Tags]) -> FloatArray:
    """Counts of the correct and of all tags of each sentence: [n, 2]. Tags may be any labels, such as parts of speech.

    Raises:
        UserError: a sentence has another number of tags.
    """
    rows = [
        [sum(map(str.__eq__, predicted, actual)), len(actual)]
        for predicted, actual in _pairs(predictions, references, list)
    ]
    return np.array(rows, dtype=np.float64)


def _pairs(
    predictions: Sequence[Tags], references: Sequence[Tags], read: Callable[[Tags], Read]
) -> Iterator[tuple[Read, Read]]:
    for number, (predicted, actual) in enumerate(zip(predictions, references, strict=True), 1):
        if len(predicted) != len(actual):
            raise UserError(f"sentence {number} has {len(actual)} tags, but {len(predicted)} were predicted")
        yield read(predicted), read(actual)


def _continues(previous: tuple[str, str], tag: tuple[str, str]) -> bool:
    """Whether a tag is of the same entity as the one before it."""
    return previous[0] in "BI" and tag[0] in "IE" and previous[1] == tag[1]


@cache
def _split_tag(tag: str) -> tuple[str, str]:
    """Split a tag into its letter and its type."""
    match = _TAG.fullmatch(tag)
    if match is None:
        hint = "entities are tagged O, or B, I, E or S with a type, such as B-PER; other tags have only tag accuracy"
        raise UserError(f"the tag '{tag}' marks no entity", hint=hint)
    prefix, kind = match.groups()
    return (_ALIASES.get(prefix, prefix), kind or "_") if prefix else _OUTSIDE
