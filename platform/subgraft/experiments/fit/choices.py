"""The settings of a fit by the amount of text, each with the measurement that it comes from.

Sections are those of docs/results.md and docs/measurements. Figures that were not measured are marked.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

from subgraft.config.training import SelectName
from subgraft.experiments.fit.priors import INITIALISER, initialiser_for


class Training(NamedTuple):
    """For up to `pairs` training pairs: updates, target characters per batch, warm-up, and peak learning rate."""

    pairs: float
    steps: int
    batch_size: int
    warmup_steps: int
    learning_rate: float


class VocabularySize(NamedTuple):
    """The vocabulary size for up to `characters` of training text."""

    characters: float
    size: int


# New rows need a higher rate than the body: "Learning rates, each system's own".
TABLE_RATE = 4.0
# The old vocabulary needs twice the rate of the systems with new rows: see the same table.
OLD_RATE = 2.0

TRAININGS = (
    # 200 updates of 3,000 characters, the body at 5e-4: "Few updates, few pairs, frozen tables". Bits are best near
    # update 100, translations later.
    Training(1_000, 240, 3000, 20, 5e-4),
    # Bits still fall at update 200 of the same table.
    Training(4_000, 400, 3000, 20, 5e-4),
    # 426 updates of 6,000 characters with 15,000 pairs: "the main systems"; the configuration asks for four times that.
    Training(20_000, 850, 6000, 100, 1e-3),
    # Not measured: about two and four passes over texts of that size.
    Training(100_000, 3000, 6000, 100, 1e-3),
    Training(math.inf, 10_000, 12_000, 400, 1e-3),
)

SIZES = (
    # 8,000 for the 15,576 sentences of itdocs, 1.2 million characters: "What the vocabularies can spell". Sizes for
    # other amounts follow it by rule of thumb, and are not measured.
    VocabularySize(60_000, 1000),
    VocabularySize(150_000, 2000),
    VocabularySize(500_000, 4000),
    VocabularySize(10_000_000, 8000),
    VocabularySize(math.inf, 16_000),
)

# All rates were measured on models of 7.5 million parameters. Models above LARGE parameters get LARGE_RATE times those
# rates, by custom; that is not measured.
LARGE, LARGE_RATE = 30_000_000, 0.2

# VocADT trains a weight for each new token and each old one of the text: 16 bytes with gradient and optimizer's state.
VOCADT, BYTES_PER_WEIGHT, MAX_WEIGHTS = "vocadt", 16, 250_000_000

# Of models with a new head: Devlin et al. (2019), appendix A.3, and for small models that of configs/polarity.yaml.
LARGE_LABEL_RATE, LABEL_RATE = 5e-5, 1e-3

# Finetunings read no text without translations; only the own vocabulary is learnt on it. With 500 and 2,000 pairs, chrF
# was 1 to 3 points lower if such text made up half of each batch: "Few pairs and a domain's text". Training new rows on
# it first has no measurable effect if the embeddings are trained too (the same section).

# The dev score that selects the weights: with few pairs, bits per character are best long before translations are.
SELECT: SelectName = "chrf"

SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
# With --quick: the share of the updates, and the number of dev and test sentences.
QUICK_STEPS, QUICK_SENTENCES = 0.5, 100
# How often dev scores are taken before the end.
EVALUATIONS = 4


@dataclass(frozen=True)
class Choice:
    """The settings of a fit.

    Attributes:
        learning_rate, embedding_learning_rate: Of the system with the new vocabulary.
        old_rate: Of the system with the old vocabulary.
        sentences: Dev and test sentences to score; all if None.
    """

    initialiser: str
    seeds: tuple[int, ...]
    steps: int
    batch_size: int
    warmup_steps: int
    learning_rate: float
    embedding_learning_rate: float
    old_rate: float
    sentences: int | None

    @property
    def evaluate_at(self) -> tuple[int, ...]:
        """The steps of dev scores, evenly spaced."""
        return tuple(self.steps * part // EVALUATIONS for part in range(1, EVALUATIONS + 1))


def choose(
    pairs: int, parameters: int, *, tokens_ratio: float | None = None, excluded: Collection[str] = (), quick: bool
) -> Choice:
    """The settings for an amount of text and a model.

    Args:
        pairs: The number of training pairs.
        parameters: The number of parameters of the model.
        tokens_ratio: Tokens of the new vocabulary for one of the old, if known.
        excluded: Initialisers that cannot be used.
        quick: Whether to use one seed, fewer updates and fewer dev and test sentences.
    """
    training = next(row for row in TRAININGS if pairs <= row.pairs)
    rate = training.learning_rate * (LARGE_RATE if parameters > LARGE else 1.0)
    return Choice(
        initialiser=initialiser_for(pairs, tokens_ratio, excluded),
        seeds=QUICK_SEEDS if quick else SEEDS,
        steps=round(training.steps * QUICK_STEPS) if quick else training.steps,
        batch_size=training.batch_size,
        warmup_steps=training.warmup_steps,
        learning_rate=rate,
        embedding_learning_rate=rate * TABLE_RATE,
        old_rate=rate * OLD_RATE,
        sentences=QUICK_SENTENCES if quick else None,
    )


def choose_for_labels(examples: int, parameters: int, *, quick: bool) -> Choice:
    """The settings for a number of labelled examples: updates as for pairs, and one rate for both vocabularies.

    Without pairs, no initialiser can learn from them.
    """
    rate = LARGE_LABEL_RATE if parameters > LARGE else LABEL_RATE
    return replace(
        choose(examples, parameters, quick=quick),
        initialiser=INITIALISER,
        learning_rate=rate,
        embedding_learning_rate=rate * TABLE_RATE,
        old_rate=rate,
        sentences=None,
    )


def vocabulary_size(characters: int) -> int:
    """The vocabulary size for a training text of this many characters; the text may support fewer subwords."""
    return next(row.size for row in SIZES if characters <= row.characters)
