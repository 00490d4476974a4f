"""The training text of a task, where it has more than its pairs: theirs, and behind it what is beside them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from subgraft.data.text import fields
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.segments import Text

SPLIT = "train"


def training_texts(*corpora: Corpus) -> dict[str, list[Text]]:
    """By the name of their field, the texts that corpora have of it, in the order in which these are given."""
    found: dict[str, list[Text]] = {}
    for corpus in corpora:
        for field in fields.texts(corpus.fields):
            if corpus.size(SPLIT, field.name):
                found.setdefault(field.name, []).append(corpus.text(SPLIT, field.name))
    return found


def training_lines(side: str, *corpora: Corpus) -> Iterator[str]:
    """The segments of one text of several corpora, streaming. Raises UserError where the first has no such text."""
    first, *others = corpora
    holding = [corpus for corpus in others if any(field.name == side for field in corpus.fields)]
    return chain.from_iterable(corpus.lines(SPLIT, side) for corpus in (first, *holding))
