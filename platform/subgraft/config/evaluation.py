"""Settings of how models, and new rows by themselves, are judged."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from subgraft.base.limits import LARGEST_BEAM
from subgraft.config.plugins import METRICS, require_offered
from subgraft.config.settings_base import (
    Count,
    DecodingEngine,
    EngineSetting,
    FurtherMetricName,
    MetricName,
    Seed,
    Settings,
)


def _offered(metrics: tuple[str, ...]) -> tuple[str, ...]:
    for name in metrics:
        if name in get_args(MetricName):
            raise ValueError(f"{name} is always measured: leave it out")
        require_offered(METRICS, name, get_args(FurtherMetricName))
    if len(set(metrics)) != len(metrics):
        raise ValueError("metrics must be distinct")
    return metrics


class DrawSettings(Settings):
    """How tokens are drawn from a model, where text is sampled.

    temperature: logits are divided by it.
    top_k: tokens are drawn from the so many likeliest; from all at 0.
    top_p: tokens are drawn from the likeliest ones whose probabilities first sum up to it.
    seed: of what is drawn.
    """

    temperature: Annotated[float, Field(gt=0, le=100)] = 1.0
    top_k: Annotated[int, Field(ge=0)] = 0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Seed = 1


class RankingSettings(Settings):
    """Prompt ranking: whether a model finds the source of a text among others, by the text's probability given each.

    sources: among how many, its own included; or as many as the test set has that differ.
    texts: of the first so many texts of the test set.
    seed: draws the other sources of each text.
    """

    sources: Annotated[int, Field(ge=2, le=1000)] = 10
    texts: Count = 200
    seed: Seed = 1


class MeasurementSettings(Settings):
    """How one model is measured on one text.

    beam: beam size of generation.
    batch_size: sentences that are translated at a time; larger is faster until memory runs out.
    max_length_ratio: an output ends at this many bytes of text for each byte of its source.
    test_sentences: the first so many sentences of the test set are scored; all where not given.
    speed_sentences: how many of these are translated to measure speed.
    speed_repeats: how many times, for a median; more for a steadier figure.
    calibration: whether the inference ECE is measured, which reads every output once more.
    engine: what searches for the outputs: transformers, or CTranslate2, which finds the same ones several times faster;
    models that CTranslate2 has not are left to transformers. Speeds of the two are not to be compared.
    speed_measured: apart, in passes over speed_sentences for speed alone; or in the pass that makes the outputs, where
    sentences of one length are translated together. Speeds of the two are not to be compared.
    draw: how text is sampled for a class, in place of beam search.
    no_repeat_ngrams: no so many tokens come twice in what is written for a class; any may where not given.
    metrics: further metrics: ROUGE-1, ROUGE-2, CIDEr, or the names of some that installed packages offer (entry points
    of the group subgraft.metrics).
    """

    beam: Annotated[int, Field(ge=1, le=LARGEST_BEAM)] = 4
    batch_size: Count = 32
    max_length_ratio: Annotated[float, Field(gt=0)] = 2.5
    test_sentences: Count | None = None
    speed_sentences: Count = 128
    speed_repeats: Annotated[int, Field(ge=1, le=1000)] = 3
    calibration: bool = True
    engine: DecodingEngine = Field(default="transformers", exclude_if=lambda given: given == "transformers")
    speed_measured: Literal["apart", "in-translation"] = Field(
        default="apart", exclude_if=lambda given: given == "apart"
    )
    draw: DrawSettings | None = Field(default=None, exclude_if=lambda given: given is None)
    no_repeat_ngrams: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, exclude_if=lambda given: given is None
    )
    metrics: Annotated[tuple[str, ...], AfterValidator(_offered)] = Field(
        default=(), exclude_if=lambda given: not given
    )


class EvaluationSettings(MeasurementSettings):
    """How the systems of an experiment are measured, and compared.

    bootstrap_samples: resamples behind an interval or a p-value.
    by_token_count: whether the bits of the test references are broken down by how often the new tokens in them occur in
    the training text; costs one more pass over the test set, by a stage of its own.
    engine: as above; auto is CTranslate2 where it is installed.
    upstream_sentences: how many sentences of the upstream corpus's test split are translated as well, before and after
    finetuning, to measure what was forgotten; none where not given.
    ranking: of models that write for a source.
    """

    engine: EngineSetting = Field(default="auto", exclude_if=lambda given: given == "auto")  # type: ignore[assignment]
    bootstrap_samples: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    by_token_count: bool = True
    upstream_sentences: Count | None = Field(default=None, exclude_if=lambda given: given is None)
    ranking: RankingSettings = Field(default=RankingSettings(), exclude_if=lambda given: given == RankingSettings())

    @property
    def measurement(self) -> MeasurementSettings:
        """The settings that decide how one model is measured, without those of comparisons."""
        given = self.model_dump(include=set(MeasurementSettings.model_fields))
        return MeasurementSettings(**given | {"engine": self.named_engine})

    @property
    def named_engine(self) -> DecodingEngine:
        """The engine, which `auto` is not."""
        if self.engine != "auto":
            return self.engine
        return "transformers" if find_spec("ctranslate2") is None else "ctranslate2"


class IntrinsicSettings(Settings):
    """The intrinsic quality of new rows: seen tokens are held out, and made again by each system's initialiser.

    tokens: how many tokens are held out; never more than a fifth of those that qualify.
    seed: draws these tokens.
    """

    tokens: Count = 500
    seed: Seed = 1
