"""The texts of a task, each with its source (a class, a text or features), as a corpus has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from subgraft.config.conditioning import SourceName
from subgraft.data.text.corpus import Corpus
from subgraft.data.text.corpus_views import class_labels
from subgraft.data.text.features import Features, features_of
from subgraft.data.text.segments import Text


@dataclass(frozen=True)
class Sourced:
    """Segments of a split: `texts`, and the source of each as it is given, a label, a text or rows of features."""

    texts: Text
    sources: Sequence[Any]

    @classmethod
    def of(cls, corpus: Corpus, split: str, source: SourceName) -> Sourced:
        """Raises UserError where the corpus has no such sources."""
        texts = corpus.text(split, corpus.text_of("decoder"))
        if source == "class":
            return cls(texts, list(corpus.lines(split, class_labels(corpus).field)))
        return cls(texts, corpus.text(split, "source") if source == "text" else features_of(corpus, split))

    def first(self, count: int | None) -> Sourced:
        return self if count is None or count >= len(self.texts) else self.take(np.arange(count))

    def shuffled(self, seed: int) -> Sourced:
        """The same texts, each with the source of another, drawn once."""
        return Sourced(self.texts, self.take(np.random.default_rng(seed).permutation(len(self.texts))).sources)

    def costs(self) -> np.ndarray | None:
        """What reading each source costs in a batch that is counted in characters [n], whether or not a model reads it.

        Of a text its characters, of features their rows; None of a class, which costs nothing.
        """
        if isinstance(self.sources, Features):
            return self.sources.counts
        return np.array([len(text) + 1 for text in self.sources]) if isinstance(self.sources, Text) else None

    def turned(self, by: int) -> Sourced:
        """The same, each segment in the place of the one that is so many before it, and the last ones first."""
        return self.take(np.roll(np.arange(len(self.texts)), -by))

    def in_words(self) -> list[str]:
        """Each source on a line, for people."""
        if isinstance(self.sources, Features):
            counts = enumerate(self.sources.counts.tolist())
            return [f"features of example {place}: {count} rows of {self.sources.width}" for place, count in counts]
        return list(self.sources)

    def take(self, places: np.ndarray) -> Sourced:
        """The segments at these places [n], in this order."""
        if isinstance(self.sources, Text | Features):
            return Sourced(self.texts.take(places), self.sources.take(places))
        return Sourced(self.texts.take(places), [self.sources[place] for place in places.tolist()])
