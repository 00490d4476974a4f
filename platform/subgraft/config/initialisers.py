"""Settings of initialisers of new embeddings: generators, static embeddings, donors."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from subgraft.base.limits import MAX_LAYERS, MAX_WIDTH
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


class GeneratorSettings(Settings):
    """Settings of generators that all systems share; the kind and kd_weight are the system's.

    max_similar: the maximum number of similar tokens that a new embedding is mixed from.
    literal_equation: whether to divide by the number of similar tokens once more, as equations 2 and 3 are printed.
    distillation_position: where a decoder's states are compared: where a token is read, or predicted.
    resegmentation: how new tokens are simulated.
    negatives: the simulated tokens in the decoder's softmax: of the sentence, or of all sentences computed together.
    initial_weights: zero, by which attention starts as avg; or normal, drawn from N(0, 1).
    """

    max_similar: Count = 10
    literal_equation: bool = False
    distillation_position: Literal["input", "prediction"] = "input"
    resegmentation: ResegmentationSettings = ResegmentationSettings()
    negatives: Negatives = "sentence"
    initial_weights: Literal["zero", "normal"] = "zero"


class NetworkSettings(Settings):
    """A generator with capacity: a network over a token's pieces, trained on pseudo-domains of the upstream text.

    width: the size of its hidden states.
    layers: the number of Transformer layers.
    domains: pseudo-domains, each with a vocabulary of its own.
    sentences: upstream sentences of a pseudo-domain.
    vocabulary_size: range of the size of a pseudo-domain's vocabulary, relative to the upstream one.
    negatives: sampled tokens in the softmax: new tokens of the pseudo-domain that are not in the batch.
    trained: the directory of a network that `subgraft generator train` made for this model.
    """

    width: Annotated[int, Field(ge=4, le=MAX_WIDTH, multiple_of=4)] = 256
    layers: Annotated[int, Field(ge=1, le=MAX_LAYERS)] = 2
    domains: Count = 16
    sentences: Count = 8000
    vocabulary_size: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = (0.6, 1.5)
    negatives: Annotated[int, Field(ge=0, le=1_000_000)] = 1000
    trained: str | None = None

    @model_validator(mode="after")
    def _bounds_ordered(self) -> NetworkSettings:
        low, high = self.vocabulary_size
        if low > high:
            raise ValueError(f"vocabulary_size must increase, and {low} is above {high}")
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
