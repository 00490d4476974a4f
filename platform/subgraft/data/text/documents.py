"""Documents of a text: consecutive sentences that belong together, and blocks of sentences that cross none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from subgraft.data.text.corpus import Corpus
from subgraft.data.text.encoded import blocks
from subgraft.data.text.fields import Field, texts
from subgraft.data.text.languages import repeated, repeated_places
from subgraft.data.text.segments import Text


class DocumentText(NamedTuple):
    """A text of documents.

    Attributes:
        language: Its language.
        lines: Its sentences.
        starts: int64 [D + 1]; document d has the sentences starts[d] to starts[d + 1].
        documents: int64 [D], the number of each; equal for the parts of a document with gaps.
    """

    language: str
    lines: Text
    starts: np.ndarray
    documents: np.ndarray

    def take(self, documents: np.ndarray) -> DocumentText:
        """The text of these documents, in this order."""
        sizes = np.diff(self.starts)[documents]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(self.starts[documents] - starts[:-1], sizes) + np.arange(starts[-1])
        return DocumentText(self.language, self.lines.take(places), starts, self.documents[documents])


def document_texts(corpus: Corpus, split: str) -> Iterator[DocumentText]:
    """Each language of a corpus with its documents; a document with a gap is several. Raises UserError without any."""
    for text in texts(corpus.fields):
        if corpus.size(split, text.name):
            yield _by_document(corpus, split, text)


def _by_document(corpus: Corpus, split: str, text: Field) -> DocumentText:
    parts = list(corpus.documents(split, text.name))
    starts = np.array([0, *(part.stop for part in parts)], dtype=np.int64)
    numbers: dict[str, int] = {}
    documents = np.array([numbers.setdefault(part.document, len(numbers)) for part in parts], dtype=np.int64)
    return DocumentText(str(text.language), corpus.text(split, text.name), starts, documents)


def oversampled_documents(documents: Sequence[DocumentText], alpha: float) -> Iterator[DocumentText]:
    """The same with documents of oversampled languages repeated, as `languages.oversampled` repeats lines."""
    sizes: Counter[str] = Counter()
    for each in documents:
        sizes[each.language] += len(each.lines)
    wanted = repeated(sizes, alpha)
    for each in documents:
        count = len(each.starts) - 1
        yield each.take(repeated_places(count, round(count * wanted[each.language] / sizes[each.language])))


def texts_by_document(corpus: Corpus, split: str) -> Iterator[DocumentText]:
    """Each language of a corpus with its documents; a text without any is one document."""
    for text in texts(corpus.fields):
        if size := corpus.size(split, text.name):
            if corpus.has_documents(text.name):
                yield _by_document(corpus, split, text)
            else:
                whole, lines = np.array([0, size]), corpus.text(split, text.name)
                yield DocumentText(str(text.language), lines, whole, np.zeros(1, dtype=np.int64))


def document_blocks(costs: np.ndarray, starts: np.ndarray, room: int | Sequence[int]) -> np.ndarray:
    """The starts of blocks of consecutive sentences of one document, and the end of the last [b + 1].

    Each block takes as many sentences as fit into `room` by their costs [n], or by each of several costs [k, n] into
    each of the rooms [k], and at least one.
    """
    bounds = [
        blocks(costs[..., begin:end], room)[:-1] + begin
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]
    return np.concatenate([*bounds, starts[-1:]])
