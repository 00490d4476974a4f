"""Views of a corpus: the training text of several corpora together, and the class labels of one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from subgraft.base.errors import UserError
from subgraft.data.text import fields
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.segments import Text

SPLIT = "train"


def training_texts(*corpora: Corpus) -> dict[str, list[Text]]:
    """The training texts of several corpora by field name, in the order of the corpora."""
    found: dict[str, list[Text]] = {}
    for corpus in corpora:
        for field in fields.texts(corpus.fields):
            if corpus.size(SPLIT, field.name):
                found.setdefault(field.name, []).append(corpus.text(SPLIT, field.name))
    return found


def training_lines(side: str, *corpora: Corpus) -> Iterator[str]:
    """The training segments of one text of several corpora. Raises UserError if the first has no such text."""
    first, *others = corpora
    holding = [corpus for corpus in others if any(field.name == side for field in corpus.fields)]
    return chain.from_iterable(corpus.lines(SPLIT, side) for corpus in (first, *holding))


# The classes of a corpus: the label that each of its segments has.


class ClassLabels(NamedTuple):
    """The label field of a corpus, and the distinct labels of its training segments, sorted."""

    field: str
    labels: tuple[str, ...]


def class_labels(corpus: Corpus) -> ClassLabels:
    """The classes of a corpus. Raises UserError if its segments have no label, or several."""
    fields = [field.name for field in corpus.fields if field.kind == "label"]
    if len(fields) != 1:
        raise UserError(f"it has {len(fields)} fields of kind label, where one is needed", where=str(corpus.directory))
    return ClassLabels(fields[0], corpus.classes[fields[0]])
