"""Which language outputs are in: naive Bayes over character n-grams, learnt from text of each language.

A model that was not finetuned on a direction may write another language than it was asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice

import numpy as np

from subgraft.data.text.corpus import Corpus, training_texts_by_language

# Outputs without a letter: "undetermined" in ISO 639.
UNDETERMINED = "und"
# What is learnt from: lines of each language, n-grams of at most this length, and the most frequent of them.
LINES, LONGEST, MOST = 2000, 4, 200_000
# So small that n-grams which a language has never shown speak against it, however little text there is of it.
_SMOOTHING = 0.01


class LanguageIdentifier:
    """The likeliest language of a line, all languages being equally likely before it is read.

    Attributes:
        languages: Those that a line may be in.
    """

    def __init__(self, texts: Mapping[str, Sequence[str]]) -> None:
        """
        Args:
            texts: Lines by language, of two languages or more.
        """
        from sklearn.feature_extraction.text import CountVectorizer
        from sklearn.naive_bayes import MultinomialNB

        self.languages = tuple(texts)
        self._counts = CountVectorizer(analyzer="char_wb", ngram_range=(1, LONGEST), max_features=MOST)
        self._classes = MultinomialNB(alpha=_SMOOTHING, fit_prior=False)
        counts = self._counts.fit_transform(chain.from_iterable(texts.values()))
        self._classes.fit(counts, np.repeat(list(texts), [len(lines) for lines in texts.values()]))

    @classmethod
    def of(cls, corpora: Iterable[Corpus]) -> LanguageIdentifier | None:
        """Learnt from the first training lines of each language in corpora; None for text of fewer than two."""
        trained = [corpus for corpus in corpora if "train" in corpus.splits]
        by_language: dict[str, list[str]] = {}
        for (_, language), texts in training_texts_by_language(*trained).items():
            lines = by_language.setdefault(language, [])
            lines += islice(chain.from_iterable(texts), LINES - len(lines))
        known = {language: lines for language, lines in by_language.items() if any(map(_has_letter, lines))}
        return cls(known) if len(known) > 1 else None

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """The language of each line, `und` for a line without a letter."""
        named = self._classes.predict(self._counts.transform(lines)).tolist() if lines else []
        return [
            str(language) if _has_letter(line) else UNDETERMINED for line, language in zip(lines, named, strict=True)
        ]

    def shares(self, lines: Sequence[str]) -> dict[str, float]:
        """The share of lines in each language that any is in, the greatest first."""
        return {language: number / len(lines) for language, number in Counter(self(lines)).most_common()}


def _has_letter(line: str) -> bool:
    return any(character.isalpha() for character in line)
