"""Settings of initialisers of new embeddings: generators, static embeddings, donors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_WIDTH
from subgraft.config.settings_base import Count, Seed, Settings, Share

MATCH_RATE = 0.25
Negatives = Literal["sentence", "batch"]


class ResegmentationSettings(Settings):
    """How new tokens are simulated inside words: by merging and splitting tokens, or by matching the statistics of the
    real new tokens.

    merge_rate: the probability that a token is merged with its right neighbour in the word, repeatedly.
    split_rate: the probability that a token that was not merged is split at a random place.
    max_merge: the maximum number of tokens merged into one.
    match: with `downstream`, simulated tokens match the new ones of the task's vocabulary in length, in how often they
    begin a word, and in numbers of subwords and hyperwords; nothing is merged or split.
    match_rate: the probability that a new token is simulated at a token, with `match`.
    """

    merge_rate: Share = 0.35
    split_rate: Share = 0.15
    max_merge: Annotated[int, Field(ge=2, le=1000)] = 4
    match: Literal["downstream"] | None = None
    match_rate: Share = MATCH_RATE

    @model_validator(mode="after")
    def _of_one_kind(self) -> ResegmentationSettings:
        if self.match is None and self.match_rate != MATCH_RATE:
            raise ValueError("match_rate applies to match: downstream only")
        defaults = ResegmentationSettings.model_fields
        ignored = [
            name for name in ("merge_rate", "split_rate", "max_merge") if getattr(self, name) != defaults[name].default
        ]
        if self.match and ignored:
            raise ValueError(f"with match: downstream nothing is merged or split: leave out {', '.join(ignored)}")
        return self


class StaticEmbeddingSettings(Settings):
    """Static embeddings of the new vocabulary's tokens, trained by gensim on the task's text with the system's
    algorithm.

    Defaults are gensim's, except for the number of buckets, which a small vocabulary does not need.
    dimensions: the size of a vector; by default the model's `d_model`.
    window: tokens of context on either side.
    epochs: passes over the text.
    min_count: tokens that occur less often get no vector.
    ngram_buckets: the number of hash buckets for fastText's n-grams; fewer save memory.
    seed: the seed of the training.
    """

    dimensions: Annotated[int, Field(ge=1, le=MAX_WIDTH)] | None = None
    window: Count = 5
    epochs: Count = 5
    min_count: Count = 5
    ngram_buckets: Annotated[int, Field(ge=1, le=100_000_000)] = 50_000
    seed: Seed = 1


class DonorMapping(Settings):
    """How a donor's embeddings are mapped into the model's space.

    mapping: omp, the combination of few shared tokens that is nearest to the donor's embedding, by orthogonal matching
    pursuit; or linear, an affine map fitted to the shared tokens by least squares.
    atoms: the number of shared tokens in a combination of omp.
    ridge: the ridge of the linear map, relative to the mean variance of the donor's dimensions; by default the one with
    the smallest error on held-out shared tokens.
    """

    mapping: Literal["omp", "linear"] = "omp"
    atoms: Annotated[int, Field(ge=1, le=4096)] = 64
    ridge: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _of_its_mapping(self) -> DonorMapping:
        if self.mapping == "linear" and self.atoms != DonorMapping.model_fields["atoms"].default:
            raise ValueError("atoms applies to mapping: omp only")
        if self.mapping == "omp" and self.ridge is not None:
            raise ValueError("ridge applies to mapping: linear only")
        return self


class DonorSettings(DonorMapping):
    """The donor of a system: another model, which has the new tokens.

    model: its directory, relative to the configuration, or its id on the hub.
    """

    model: str

    @property
    def mapping_settings(self) -> DonorMapping:
        """The settings without the model, which a recipe has as an input."""
        return DonorMapping(mapping=self.mapping, atoms=self.atoms, ridge=self.ridge)
