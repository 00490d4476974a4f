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
        indices = np.repeat(self.starts[documents] - starts[:-1], sizes) + np.arange(starts[-1])
        return DocumentText(self.language, self.lines.take(indices), starts, self.documents[documents])


def document_texts(corpus: Corpus, split: str) -> Iterator[DocumentText]:
    """The documents of each language; a document with a gap counts as several. Raises UserError if there are none."""
    for text in texts(corpus.fields):
        if corpus.size(split, text.name):
            yield _by_document(corpus, split, text)


def _by_document(corpus: Corpus, split: str, text: Field) -> DocumentText:
    document_runs = list(corpus.documents(split, text.name))
    starts = np.array([0, *(run.stop for run in document_runs)], dtype=np.int64)
    numbers: dict[str, int] = {}
    documents = np.array([numbers.setdefault(run.document, len(numbers)) for run in document_runs], dtype=np.int64)
    return DocumentText(str(text.language), corpus.text(split, text.name), starts, documents)


def oversampled_documents(documents: Sequence[DocumentText], alpha: float) -> Iterator[DocumentText]:
    """Repeat the documents of oversampled languages, as `languages.oversampled` repeats lines."""
    sizes: Counter[str] = Counter()
    for text in documents:
        sizes[text.language] += len(text.lines)
    targets = repeated(sizes, alpha)
    for text in documents:
        count = len(text.starts) - 1
        yield text.take(repeated_places(count, round(count * targets[text.language] / sizes[text.language])))


def texts_by_document(corpus: Corpus, split: str) -> Iterator[DocumentText]:
    """The documents of each language; a text without documents counts as one."""
    for text in texts(corpus.fields):
        if size := corpus.size(split, text.name):
            if corpus.has_documents(text.name):
                yield _by_document(corpus, split, text)
            else:
                starts, lines = np.array([0, size]), corpus.text(split, text.name)
                yield DocumentText(str(text.language), lines, starts, np.zeros(1, dtype=np.int64))


def document_blocks(costs: np.ndarray, starts: np.ndarray, room: int | Sequence[int]) -> np.ndarray:
    """The starts of blocks of consecutive sentences of one document, and the end of the last [b + 1].

    Each block takes as many sentences as fit into `room` by their costs [n], or by each of several costs [k, n] into
    each of the rooms [k], and at least one.
    """
    bounds = [
        blocks(costs[..., start:end], room)[:-1] + start
        for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
    ]
    return np.concatenate([*bounds, starts[-1:]])
