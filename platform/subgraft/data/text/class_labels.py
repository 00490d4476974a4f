"""The classes of a corpus: the label that each of its segments has."""

from __future__ import annotations

from typing import NamedTuple

from subgraft.base.errors import UserError
from subgraft.data.text.corpus import Corpus


class ClassLabels(NamedTuple):
    """field: the one that labels stand in.  labels: those of training segments, each once, in order."""

    field: str
    labels: tuple[str, ...]


def class_labels(corpus: Corpus) -> ClassLabels:
    """Raises UserError for a corpus whose segments have no label, or several."""
    fields = [field.name for field in corpus.fields if field.kind == "label"]
    if len(fields) != 1:
        raise UserError(f"it has {len(fields)} fields of kind label, where one is needed", where=str(corpus.directory))
    return ClassLabels(fields[0], corpus.classes[fields[0]])
