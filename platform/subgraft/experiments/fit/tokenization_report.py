"""Compare the segmentations of the text by the model's vocabulary and by one that is learnt on the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from subgraft.base.errors import UserError
from subgraft.config.settings_base import VocabularyKind
from subgraft.evaluation.reporting.numbers import fixed, percent
from subgraft.experiments.fit.base_model import BaseModelFacts
from subgraft.experiments.fit.choices import SIZES, vocabulary_size
from subgraft.experiments.fit.split import Pair
from subgraft.subwords.vocabulary.compare import Gap, compare
from subgraft.subwords.vocabulary.learn import learn
from subgraft.subwords.vocabulary.learning_errors import TooLargeError
from subgraft.subwords.vocabulary.tokenizer import Tokenizer

# The most lines that a trial vocabulary is learnt from, and that the two are compared on.
LEARNT_FROM, COMPARED_ON = 100_000, 10_000
EXAMPLES = 3


@dataclass(frozen=True)
class Measured:
    """The vocabulary is learnt for this measurement alone; the experiment learns its own, of the same size.

    old_tokens: How many tokens of the model's vocabulary the text has, of at most COMPARED_ON lines.
    """

    vocabulary: Tokenizer
    gap: Gap
    tokens_per_character: float
    old_tokens: int

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
            yield f"it cuts the most of {examples}"


def measure(model: BaseModelFacts, pairs: Sequence[Pair], more_text: Sequence[str] = ()) -> Measured:
    """Learn a vocabulary of both sides, of the size that suits the text, and compare it with the model's on targets.

    more_text: further text of the target language, which vocabularies are learnt on too.
    """
    sides: list[Sequence[str]] = list(zip(*pairs, strict=True))
    target, old = sides[1], model.tokenizers["decoder"]
    text = [*chain.from_iterable(sides), *more_text]
    return _measured(old, text, target, model.vocabulary_kind)


def measure_lines(model: BaseModelFacts, lines: Sequence[str], kind: VocabularyKind) -> Measured:
    """The same for a model with one vocabulary, which only reads the text."""
    return _measured(model.tokenizers["decoder"], lines, lines, kind)


def _measured(old: Tokenizer, text: Sequence[str], target: Sequence[str], kind: VocabularyKind) -> Measured:
    """A vocabulary of the text, compared with the old one on lines of the target."""
    own = _learn(text, vocabulary_size(sum(map(len, text))), kind, old)
    sample = _sample(target)
    gap = compare(old, own, sample, EXAMPLES)
    assert gap.text is not None
    old_tokens = set(chain.from_iterable(old.encode_batch(_sample(text))))
    return Measured(own, gap, gap.text.upstream.tokens / max(1, sum(map(len, sample))), len(old_tokens))


def _sample(lines: Sequence[str]) -> Sequence[str]:
    """About COMPARED_ON lines, evenly spaced."""
    return lines[:: max(1, len(lines) // COMPARED_ON)]


def _learn(text: Sequence[str], size: int, kind: VocabularyKind, like: Tokenizer) -> Tokenizer:
    """A vocabulary of the wanted size, or the nearest size that the text and its characters allow."""
    sizes = [size, *(each.size for each in SIZES if each.size > size)]
    for wanted in sizes:
        try:
            return _of_size(text, wanted, kind, like)
        except TooLargeError as error:
            return _of_size(text, error.possible, kind, like)
        except UserError:
            if wanted == sizes[-1]:
                raise
    raise AssertionError("the last size has returned or raised")


def _of_size(text: Sequence[str], size: int, kind: VocabularyKind, like: Tokenizer) -> Tokenizer:
    bytes_too = kind != "wordpiece"
    return learn(text, kind=kind, size=size, byte_fallback=bytes_too, like=like, max_lines=LEARNT_FROM)
