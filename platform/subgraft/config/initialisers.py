"""Settings of what makes the rows of new tokens: generators, static embeddings, distillation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.config.base import Seed, Settings, Share

MATCH_RATE = 0.25
Negatives = Literal["sentence", "batch"]


class ResegmentationSettings(Settings):
    """How unseen tokens are simulated inside words: by merging and splitting, or by likeness to the real new ones.

    merge_rate: chance that a token is merged with its right neighbour in the word (repeatedly, up to max_merge tokens).
    split_rate: chance that a token that was not merged is cut in two at a random place.
    match: downstream simulates tokens that are as long, begin words as often, and have as many subwords and hyperwords
    as those that the task's vocabulary adds; nothing is merged or split then.  match_rate: how many, for each token.
    """

    merge_rate: Share = 0.35
    split_rate: Share = 0.15
    max_merge: Annotated[int, Field(ge=2)] = 4
    match: Literal["downstream"] | None = Field(default=None, exclude_if=lambda given: given is None)
    match_rate: Share = Field(default=MATCH_RATE, exclude_if=lambda given: given == MATCH_RATE)

    @model_validator(mode="after")
    def _of_one_kind(self) -> ResegmentationSettings:
        if self.match is None and self.match_rate != MATCH_RATE:
            raise ValueError("match_rate goes with match: downstream")
        defaults = ResegmentationSettings.model_fields
        idle = [n for n in ("merge_rate", "split_rate", "max_merge") if getattr(self, n) != defaults[n].default]
        if self.match and idle:
            raise ValueError(f"with match: downstream nothing is merged or split: leave out {', '.join(idle)}")
        return self


class GeneratorSettings(Settings):
    """Training of a generator, in all that systems share; its kind and kd_weight are the system's.

    negatives: which simulated tokens a token of the decoder competes with, those of its sentence, or of all sentences
    that are computed together.  initial_weights: W begins at zero, which is avg, or is drawn from N(0, 1).
    """

    max_similar: Annotated[int, Field(ge=1)] = 10
    literal_equation: bool = False
    distillation_position: Literal["input", "prediction"] = "input"
    resegmentation: ResegmentationSettings = ResegmentationSettings()
    negatives: Negatives = Field(default="sentence", exclude_if=lambda given: given == "sentence")
    initial_weights: Literal["zero", "normal"] = Field(default="zero", exclude_if=lambda given: given == "zero")


class StaticEmbeddingSettings(Settings):
    """Static embeddings of the new vocabulary's tokens, trained on the task's text; the system's method says by what.

    dimensions: the model's `d_model` where not given.  min_count: tokens rarer than this get no vector.  The n-grams
    are fastText's.  Defaults are gensim's, but for the number of buckets, which a small vocabulary does not need.
    """

    dimensions: Annotated[int, Field(ge=1)] | None = None
    window: Annotated[int, Field(ge=1)] = 5
    epochs: Annotated[int, Field(ge=1)] = 5
    min_count: Annotated[int, Field(ge=1)] = 5
    negative_samples: Annotated[int, Field(ge=1)] = 5
    learning_rate: Annotated[float, Field(gt=0)] = 0.025
    min_ngram: Annotated[int, Field(ge=1)] = 3
    max_ngram: Annotated[int, Field(ge=1)] = 6
    ngram_buckets: Annotated[int, Field(ge=1)] = 50_000
    seed: Seed = 1

    @model_validator(mode="after")
    def _ngrams_ordered(self) -> StaticEmbeddingSettings:
        if self.min_ngram > self.max_ngram:
            raise ValueError(f"min_ngram {self.min_ngram} is above max_ngram {self.max_ngram}")
        return self


class TokenDistillationSettings(Settings):
    """Rows of new tokens by distilling hidden states (Dobler, Elliott and de Melo 2025), in all but its training.

    sentences_per_token: a sentence is read where one of its new tokens has been met in fewer than this.  layer: after
    which layer of the changed side states are compared, from 1; the last where not given.  distance: of two states,
    their mean squared difference, or the Euclidean distance.
    """

    sentences_per_token: Annotated[int, Field(ge=1)] = 100
    layer: Annotated[int, Field(ge=1)] | None = None
    distance: Literal["squared", "euclidean"] = "squared"


class LikelihoodMatchingSettings(Settings):
    """Rows of new tokens by matching likelihoods of text (Minixhofer, Vulić and Ponti 2025), in all but its training.

    sentences_per_token: a sentence is read where one of its new tokens has been met in fewer than this.  text: what the
    frozen model says the likelihood of, the task's references, or its own translations of the task's sources; beam: of
    these.  temperature: τ, by which log-likelihoods are divided.  boundary_threshold: the probability of a word's
    beginning below which spans are merged (the paper's outcome debiasing has 0.1); null for the smallest spans.
    """

    sentences_per_token: Annotated[int, Field(ge=1)] = 100
    text: Literal["references", "own-translations"] = "references"
    beam: Annotated[int, Field(ge=1)] = 1
    temperature: Annotated[float, Field(gt=0)] = 100.0
    boundary_threshold: Annotated[float, Field(gt=0, lt=1)] | None = None
