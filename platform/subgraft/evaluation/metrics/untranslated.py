"""Outputs that are not translations: copies of their sources, or text in another language.

Copies score above zero where languages share words. A model that was not finetuned on a direction may write another
language.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from subgraft.config.corpora import UNDETERMINED
from subgraft.data.text.corpus import Corpus, training_texts_by_language
from subgraft.evaluation.metrics.scores import corpus_scores

# A system only copies if at least this share of its outputs equals their sources, or at this BLEU against the sources.
MIN_IDENTICAL, MIN_BLEU = 0.5, 50.0


@dataclass(frozen=True)
class Copying:
    """Copies among the outputs of a system.

    Attributes:
        identical: The share of outputs that equal their sources, ignoring case and white space around them.
        against_sources: BLEU of the outputs against their sources.
    """

    identical: float
    against_sources: float

    @property
    def only_copies(self) -> bool:
        """Whether the system does little else than copy."""
        return self.identical >= MIN_IDENTICAL or self.against_sources >= MIN_BLEU


def copying(sources: Sequence[str], outputs: Sequence[str], language: str) -> Copying:
    """Measure copies among outputs. `language` is the outputs' language."""
    same = sum(
        source.strip().lower() == output.strip().lower() for source, output in zip(sources, outputs, strict=True)
    )
    against_sources = corpus_scores(outputs, sources, language, ["BLEU"])["BLEU"].value
    return Copying(same / len(outputs), against_sources)


def copied_scores(sources: Sequence[str], references: Sequence[str], language: str) -> dict[str, float]:
    """BLEU and chrF of the sources themselves, as if they were translations."""
    scores = corpus_scores(sources, references, language, ["BLEU", "chrF"])
    return {name: score.value for name, score in scores.items()}


# Outputs without a letter: "undetermined" in ISO 639.
# Limits of the training data: lines per language, the length of n-grams, and how many (the most frequent) are features.
MAX_LINES, MAX_ORDER, MAX_FEATURES = 2000, 4, 200_000
# Small enough that an n-gram which a language lacks counts against the language, even with little text.
_SMOOTHING = 0.01


class LanguageIdentifier:
    """Identifies the language of a line by naive Bayes over character n-grams, with a uniform prior.

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
        self._counts = CountVectorizer(analyzer="char_wb", ngram_range=(1, MAX_ORDER), max_features=MAX_FEATURES)
        self._classes = MultinomialNB(alpha=_SMOOTHING, fit_prior=False)
        counts = self._counts.fit_transform(chain.from_iterable(texts.values()))
        self._classes.fit(counts, np.repeat(list(texts), [len(lines) for lines in texts.values()]))

    @classmethod
    def of(cls, corpora: Iterable[Corpus]) -> LanguageIdentifier | None:
        """Train on the first training lines of each language; None if the corpora have fewer than two languages."""
        corpora_with_training = [corpus for corpus in corpora if "train" in corpus.splits]
        by_language: dict[str, list[str]] = {}
        for (_, language), texts in training_texts_by_language(*corpora_with_training).items():
            lines = by_language.setdefault(language, [])
            lines += islice(chain.from_iterable(texts), MAX_LINES - len(lines))
        usable = {language: lines for language, lines in by_language.items() if any(map(_has_letter, lines))}
        return cls(usable) if len(usable) > 1 else None

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """The language of each line, `und` for a line without a letter."""
        predicted = self._classes.predict(self._counts.transform(lines)).tolist() if lines else []
        return [
            str(language) if _has_letter(line) else UNDETERMINED
            for line, language in zip(lines, predicted, strict=True)
        ]

    def shares(self, lines: Sequence[str]) -> dict[str, float]:
        """The share of lines in each language that any is in, the greatest first."""
        return {language: number / len(lines) for language, number in Counter(self(lines)).most_common()}


def _has_letter(line: str) -> bool:
    return any(character.isalpha() for character in line)
