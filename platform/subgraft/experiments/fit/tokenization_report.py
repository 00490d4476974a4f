"""Compare the segmentations of the text by the model's vocabulary and by one that is learnt on the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from subgraft.base.errors import UserError
from subgraft.config.settings_base import SENTENCEPIECE_KINDS, VocabularyKind
from subgraft.evaluation.reporting.numbers import fixed, percent
from subgraft.experiments.fit.base_model import BaseModelFacts
from subgraft.experiments.fit.choices import SIZES, vocabulary_size
from subgraft.experiments.fit.split import Pair
from subgraft.subwords.vocabulary.compare import Gap, compare
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.lost_text import LostText, lost_text
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The most lines that a trial vocabulary is learnt from, and that the two are compared on.
MAX_TRAINING_LINES, MAX_COMPARED_LINES = 100_000, 10_000
EXAMPLES = 3


@dataclass(frozen=True)
class TextMeasurement:
    """The subword gap of a text.

    Attributes:
        vocabulary: Learnt for this measurement alone; the experiment learns its own, of the same size.
        gap: Between the model's vocabulary and this one.
        old_tokens: How many tokens of the model's vocabulary occur in at most MAX_COMPARED_LINES lines of the text.
        lost: Lines of the text that the model's vocabulary gives back and this one does not.
    """

    vocabulary: Tokenizer
    gap: Gap
    old_tokens: int
    lost: LostText

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    @property
    def tokens_ratio(self) -> float:
        """Tokens of the vocabulary for one of the model's."""
        assert self.gap.text is not None
        return self.gap.text.downstream.tokens_per_sentence / max(1e-9, self.gap.text.upstream.tokens_per_sentence)

    @property
    def mixing_weights(self) -> int:
        """Weights of new tokens as mixtures of the old ones that the text has."""
        return self.size * self.old_tokens

    def lines(self, segment: str = "a target sentence") -> Iterator[str]:
        """The comparison as lines for the user; `segment` is what was measured."""
        assert self.gap.text is not None
        old, own = (text.tokens_per_sentence for text in (self.gap.text.upstream, self.gap.text.downstream))
        yield (
            f"{segment} takes {fixed(old, 1)} tokens of the model's vocabulary, and {fixed(own, 1)} "
            f"(×{fixed(self.tokens_ratio)}) of one of its own with {self.size:,} subwords"
        )
        yield f"the model's vocabulary lacks {percent(self.gap.unseen_share)} of these"
        words = (f"{word.word} ({' '.join(word.upstream)})" for word in self.gap.text.oversegmented[:EXAMPLES])
        if examples := ", ".join(words):
            yield f"it segments the most of {examples}"


def measure(model: BaseModelFacts, pairs: Sequence[Pair], additional_text: Sequence[str] = ()) -> TextMeasurement:
    """Learn a vocabulary of both sides, of the size that suits the text, and compare it with the model's on targets.

    additional_text: further text of the target language, on which the vocabulary is learnt too.
    """
    sides: list[Sequence[str]] = list(zip(*pairs, strict=True))
    target, old = sides[1], model.tokenizers["decoder"]
    text = [*chain.from_iterable(sides), *additional_text]
    return _measure(old, text, target, model.vocabulary_kind)


def measure_lines(
    model: BaseModelFacts, lines: Sequence[str], kind: VocabularyKind, min_count: int | None = None
) -> TextMeasurement:
    """Measure lines that a model with one vocabulary reads.

    min_count: how often the lines use each subword of the vocabulary at least; None allows unused ones.
    """
    return _measure(model.tokenizers["decoder"], lines, lines, kind, min_count)


def _measure(
    old: Tokenizer, text: Sequence[str], target: Sequence[str], kind: VocabularyKind, min_count: int | None = None
) -> TextMeasurement:
    """A vocabulary of the text, compared with the old one on lines of the target."""
    own = _learn(text, vocabulary_size(sum(map(len, text))), kind, old, min_count)
    sample = _sample(target)
    gap = compare(old, own, sample, EXAMPLES)
    assert gap.text is not None
    old_tokens = set(chain.from_iterable(old.encode_batch(_sample(text))))
    return TextMeasurement(own, gap, len(old_tokens), lost_text(old, own, text))


def _sample(lines: Sequence[str]) -> Sequence[str]:
    """About MAX_COMPARED_LINES lines, evenly spaced."""
    return lines[:: max(1, len(lines) // MAX_COMPARED_LINES)]


def _learn(text: Sequence[str], size: int, kind: VocabularyKind, like: Tokenizer, min_count: int | None) -> Tokenizer:
    """A vocabulary of this size, or of the nearest size that the text and its characters allow."""
    sizes = [size, *(row.size for row in SIZES if row.size > size)]
    for target_size in sizes:
        try:
            return _learn_at_most(text, target_size, kind, like, min_count)
        except UserError:
            if target_size == sizes[-1]:
                raise
    raise AssertionError("the last size has returned or raised")


def _learn_at_most(
    text: Sequence[str], size: int, kind: VocabularyKind, like: Tokenizer, min_count: int | None
) -> Tokenizer:
    """A vocabulary of this size, or of the largest that the text supports."""
    byte_fallback = kind in SENTENCEPIECE_KINDS
    try:
        return learn(
            text,
            kind=kind,
            size=size,
            byte_fallback=byte_fallback,
            like=like,
            max_lines=MAX_TRAINING_LINES,
            min_count=min_count,
        )
    except TooLargeError as error:
        return _learn_at_most(text, error.possible, kind, like, min_count)
